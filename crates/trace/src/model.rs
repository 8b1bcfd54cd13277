//! A *model* is named here by its shape and its vocabulary; its weights live elsewhere.

use serde::{Deserialize, Serialize};

/// Index of a token in the vocabulary.
pub type TokenId = u32;

/// A model's name on a page: that of a model that ships, e.g. `story`, or one made for a reader's own.
pub type ModelId = String;

/// The shape of a Llama-style decoder. Counts, no bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelInfo {
    pub id: ModelId,
    /// Width of the residual stream.
    pub dim: usize,
    /// Width of the feed-forward layer.
    pub hidden_dim: usize,
    pub n_layers: usize,
    /// Query heads.
    pub n_heads: usize,
    /// Key/value heads; a divisor of `n_heads`. Fewer than `n_heads` means grouped queries.
    pub n_kv_heads: usize,
    /// Width of one head, `dim / n_heads`.
    pub head_dim: usize,
    pub vocab_size: usize,
    /// Positions the model was trained for, and the size of its cache.
    pub context: usize,
    /// Whether the output matrix is the embedding matrix.
    pub tied_embedding: bool,
}

impl ModelInfo {
    /// Width of all keys (or all values) of one position in one layer: `n_kv_heads · head_dim`.
    pub fn kv_dim(&self) -> usize {
        self.n_kv_heads * self.head_dim
    }

    /// How many query heads share one key/value head.
    pub fn group_size(&self) -> usize {
        self.n_heads / self.n_kv_heads
    }

    /// Number of weights, each stored once.
    pub fn n_parameters(&self) -> u64 {
        let embedding = (self.vocab_size * self.dim) as u64;
        let output = if self.tied_embedding { 0 } else { embedding };
        let norms = (self.dim * (2 * self.n_layers + 1)) as u64;
        embedding + output + norms + self.n_layers as u64 * self.layer_matrix_elements()
    }

    /// Elements of one layer's matrices: query and output (dim × dim), key and value (dim × kv_dim), and the three
    /// feed-forward matrices (dim × hidden_dim).
    pub fn layer_matrix_elements(&self) -> u64 {
        let (dim, kv_dim, hidden) = (self.dim as u64, self.kv_dim() as u64, self.hidden_dim as u64);
        2 * dim * dim + 2 * dim * kv_dim + 3 * dim * hidden
    }
}

/// The bytes that one token stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
    /// A control token (begin of text, unknown) writes nothing; its bytes are its name.
    pub control: bool,
}

/// What every token of a model stands for, by id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vocabulary {
    pub pieces: Vec<Piece>,
    /// Begins every prompt, and, when the model writes it, ends the text.
    pub bos: TokenId,
}

impl Vocabulary {
    /// The token as a label: its text, `<0xE2>` for a byte that is no text by itself, `?` for an id out of range.
    pub fn label(&self, id: TokenId) -> String {
        let Some(piece) = self.pieces.get(id as usize) else {
            return "?".into();
        };
        match std::str::from_utf8(&piece.bytes) {
            Ok(text) => text.to_string(),
            Err(_) => piece.bytes.iter().map(|byte| format!("<0x{byte:02X}>")).collect(),
        }
    }

    /// The text that `tokens` write after `previous`: their [`bytes`](Self::bytes), where those that are not UTF-8 become
    /// U+FFFD.
    pub fn text(&self, previous: Option<TokenId>, tokens: &[TokenId]) -> String {
        String::from_utf8_lossy(&self.bytes(previous, tokens)).into_owned()
    }

    /// The bytes that `tokens` write after `previous`. A piece's leading space is dropped right after the BOS token (the
    /// rule of llama2.c's `decode`), and control tokens write nothing.
    pub fn bytes(&self, previous: Option<TokenId>, tokens: &[TokenId]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut previous = previous;
        for &id in tokens {
            if let Some(piece) = self.pieces.get(id as usize).filter(|piece| !piece.control) {
                let mut piece = piece.bytes.as_slice();
                if previous == Some(self.bos) && piece.first() == Some(&b' ') {
                    piece = &piece[1..];
                }
                bytes.extend_from_slice(piece);
            }
            previous = Some(id);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vocabulary() -> Vocabulary {
        let piece = |bytes: &[u8], control| Piece { bytes: bytes.to_vec(), control };
        Vocabulary {
            pieces: vec![
                piece(b"<unk>", true),
                piece(b"<s>", true),
                piece(b" once", false),
                piece(&[0xC3], false),
                piece(&[0xA9], false),
            ],
            bos: 1,
        }
    }

    #[test]
    fn text_drops_the_leading_space_after_bos_only() {
        assert_eq!(vocabulary().text(None, &[1, 2, 2]), "once once");
        assert_eq!(vocabulary().text(Some(2), &[2]), " once");
    }

    #[test]
    fn bytes_of_one_character_join_in_text_and_show_as_bytes_alone() {
        assert_eq!(vocabulary().text(None, &[3, 4]), "é");
        assert_eq!(vocabulary().label(3), "<0xC3>");
    }

    #[test]
    fn parameters_are_counted_from_the_shape() {
        let info = ModelInfo {
            id: "story".into(),
            dim: 128,
            hidden_dim: 344,
            n_layers: 5,
            n_heads: 8,
            n_kv_heads: 4,
            head_dim: 16,
            vocab_size: 1024,
            context: 256,
            tied_embedding: true,
        };
        // The checkpoint holds its header and two RoPE tables of context × head_dim / 2 besides.
        assert_eq!(info.n_parameters() * 4 + 28 + 2 * 256 * 8 * 4, 4_171_292);
    }
}
