//! A *format* is a layout of a model's weights in a file. This module reads and writes three: the project's own
//! ([`inferscope`]), which is small and checks itself, that of llama2.c ([`llama2c`]), and Hugging Face's safetensors
//! with a Llama's `config.json` ([`hugging_face`]).
//!
//! It knows bytes and checkpoints, but no names of files and no devices; [`import`](crate::import) finds out which file
//! is of which format.

mod elements;
pub(crate) mod hugging_face;
pub(crate) mod inferscope;
pub(crate) mod llama2c;
pub(crate) mod shown;

pub use elements::{ElementType, GROUP};
pub use hugging_face::HuggingFaceError;
pub use inferscope::FormatError;
pub use llama2c::CheckpointError;

use crate::checkpoint::{Checkpoint, Part};

impl Checkpoint {
    /// The same model with every matrix as its weights are when stored in `bits` bits each, in groups of [`GROUP`] with
    /// a common scale; norms are left as they are. With eight bits this is what a file of [`ElementType::Int8`] keeps.
    ///
    /// # Panics
    /// When `bits` is not 2 … 8.
    pub fn quantised(&self, bits: u32) -> Self {
        assert!((2..=8).contains(&bits), "a weight is quantised to 2 … 8 bits, not {bits}");
        let Ok(checkpoint) = Self::read_parts(self.shape.clone(), &Part::all(&self.shape), |part| {
            let weights = self.part(part);
            let [_, columns] = part.size(&self.shape);
            Ok::<_, std::convert::Infallible>(match part.is_norm() {
                true => weights.to_vec(),
                false => elements::quantised(weights, columns, bits),
            })
        });
        checkpoint
    }
}
