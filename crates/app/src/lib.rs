//! The *app* is the page's side of the widget: it turns clicks into player events, player actions into commands for an
//! engine, and frames into elements. It knows traces and frames; it never sees a tensor.

#![cfg(target_arch = "wasm32")]

mod api;
mod dom;
mod few;
mod hub;
mod models;
mod parts;
mod probe;
mod signal;
mod views;
mod widget;
mod worker;
