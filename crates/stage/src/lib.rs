//! The *stage* turns a trace and a moment in it into frames: plain values that say what stands where, in which state.
//!
//! A frame is fresh each time and depends on nothing but its arguments. The stage knows no DOM, no engine and no clock;
//! the player, which decides what the moment is, is a pure transition too.

mod cache;
mod candidates;
mod choice;
mod compare;
mod counters;
pub mod format;
mod growth;
mod json;
mod lookup;
mod metrics;
mod moment;
mod player;
pub mod scenes;
mod text;
mod timeline;

#[cfg(test)]
mod fixture;

pub use cache::{Arrow, CacheFrame, CellDetails, Column, ColumnState, HeadNumbers, Plan, cell_details, cell_pixels};
pub use candidates::{Bar, CandidatesFrame};
pub use choice::{Choice, EngineStatus, Probe, Request, choose};
pub use compare::Comparison;
pub use counters::{Counter, Mark, counters};
pub use growth::{Curve, GrowthFrame};
pub use json::{Detail, ModelJson, StepJson, TraceJson};
pub use lookup::{merge, missing};
pub use metrics::Metrics;
pub use moment::{Beat, Moment, beats, duration_ms, predicted_step};
pub use player::{Action, Event, Pace, Player, Status};
pub use text::{TextPiece, Voice, text_pieces};
pub use timeline::{TimelineFrame, TimelineStep};

/// What the reader has picked out to look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// One layer's attention, or the mean of all.
    pub layer: Option<usize>,
    /// One head's attention, or the mean of all.
    pub head: Option<usize>,
    /// The cell whose numbers are shown: layer and position.
    pub cell: Option<(usize, usize)>,
}
