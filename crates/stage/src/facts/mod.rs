//! *Facts* are published figures of real models and accelerators, each with its source. Nothing here is measured or
//! estimated by this project; formulas that use them stand beside them.

mod models;
mod parts;

pub use models::{Attention, MODELS, Published, model};
pub use parts::{PARTS, Part, part, this_device};
