//! The *stage* turns a trace and a moment in it into frames: plain values that say what stands where, in which state.
//!
//! A frame is fresh each time and depends on nothing but its arguments. The stage knows no DOM, no engine and no clock;
//! the player, which decides what the moment is, is a pure transition too.

mod branches;
mod cache;
mod candidates;
mod choice;
mod compare;
mod counters;
pub mod facts;
mod focus;
pub mod format;
mod growth;
mod heads;
mod json;
mod lookup;
pub mod markup;
mod memory;
mod metrics;
mod moment;
mod player;
mod presets;
mod quiz;
mod roofline;
pub mod scenes;
pub mod serving;
mod speculative;
mod stages;
mod text;
mod timeline;
mod trace_events;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod frames_tests;

pub use branches::{Branch, BranchRow, Branches};
pub use cache::{Arrow, CacheFrame, CellDetails, Column, ColumnState, HeadNumbers, Plan, cell_details, cell_pixels};
pub use candidates::{Bar, CandidatesFrame};
pub use choice::{Choice, EngineStatus, Probe, Request, choose};
pub use compare::Comparison;
pub use counters::{Counter, Mark, counters};
pub use focus::Focus;
pub use growth::{Curve, GrowthFrame, Measure};
pub use heads::{Habit, Head, HeadMap, OFTEN};
pub use json::{Detail, ModelJson, StepJson, TraceJson};
pub use lookup::{merge, missing, missing_attention};
pub use memory::{
    Budget, ELEMENTS, Element, Fit, MOST_BATCH, MOST_CONTEXT, MOST_PARTS, MemoryFrame, MemoryRow, element_of,
    whole_number,
};
pub use metrics::Metrics;
pub use moment::{Beat, Moment, beats, duration_ms, predicted_step};
pub use player::{Action, Event, Pace, Player, Status};
pub use presets::{PRESETS, Preset};
pub use quiz::{Ask, Question, Reveal};
pub use roofline::{Bound, Demand, RooflineFrame, Spot, Workload};
pub use speculative::{Author, Card, Fate, RoundRow, SpeculativeFrame, Yield, expected_tokens};
pub use stages::{Draws, Lane, Segment, Stage, StagesFrame, find_candidates, most_open_step};
pub use text::{TextPiece, Voice, text_pieces};
pub use timeline::{TimeScale, TimelineFrame, TimelineStep};
pub use trace_events::TraceEvents;

/// What the reader has picked out to look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// One layer's attention, or the mean of all.
    pub layer: Option<usize>,
    /// One head's attention, or the mean of all.
    pub head: Option<usize>,
    /// The token whose attention is shown, both ways, instead of the newest one's.
    pub focus: Option<usize>,
    /// The cell whose numbers are shown: layer and position.
    pub cell: Option<(usize, usize)>,
}
