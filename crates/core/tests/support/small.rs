//! Small models with weights made up on the spot, in every shape that the code must handle.

use inferscope_core::{Checkpoint, Tokenizer};

/// A header in the order of the file: dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, context.
pub type Header = [i32; 7];

/// One shape for each way that heads may share keys, with tied and separate output matrices.
pub const SHAPES: [(&str, Header); 5] = [
    ("a key for each query head", [16, 24, 2, 4, 4, 40, 24]),
    ("two query heads to a key", [16, 20, 3, 4, 2, -40, 24]),
    ("one key for all", [24, 16, 2, 3, 1, 31, 24]),
    ("a single head and layer", [8, 12, 1, 1, 1, -7, 24]),
    ("heads of two components", [8, 6, 2, 4, 2, 9, 24]),
];

/// Numbers that look random and are the same everywhere.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        // SplitMix64 (Steele, Lea & Flood 2014).
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// In −0.5 .. 0.5.
    pub fn weight(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    }
}

/// A checkpoint file of that shape.
pub fn checkpoint_bytes(header: Header) -> Vec<u8> {
    let [dim, hidden, layers, heads, kv_heads, vocab, context] = header.map(|field| field.unsigned_abs() as usize);
    let kv_dim = dim / heads * kv_heads;
    let layer = 2 * dim + 2 * dim * dim + 2 * dim * kv_dim + 3 * dim * hidden;
    let output = if header[5] < 0 { vocab * dim } else { 0 };
    let elements = vocab * dim + layers * layer + dim + context * dim / heads + output;
    let mut numbers = Numbers(7);
    let weights = (0..elements).flat_map(|_| (numbers.weight() * 1.6).to_le_bytes());
    header.iter().flat_map(|field| field.to_le_bytes()).chain(weights).collect()
}

pub fn checkpoint(header: Header) -> Checkpoint {
    Checkpoint::parse(&checkpoint_bytes(header)).unwrap()
}

/// A tokenizer file of these pieces, the longest at most `longest` bytes.
pub fn tokenizer_bytes(pieces: &[(f32, &[u8])]) -> Vec<u8> {
    let longest = pieces.iter().map(|(_, bytes)| bytes.len()).max().unwrap_or(0);
    let mut file = (longest as i32).to_le_bytes().to_vec();
    for (score, bytes) in pieces {
        file.extend(score.to_le_bytes());
        file.extend((bytes.len() as i32).to_le_bytes());
        file.extend(*bytes);
    }
    file
}

/// Control tokens 0 to 2, a space as 3, and the letters from `a` on: every letter of a prompt is a token.
pub fn letters(vocab_size: usize) -> Tokenizer {
    let letters: Vec<[u8; 1]> = (0..vocab_size).map(|id| [b'a' + (id as u8).saturating_sub(4)]).collect();
    let pieces: Vec<(f32, &[u8])> = (0..vocab_size)
        .map(|id| match id {
            0 => (0.0, &b"<unk>"[..]),
            1 => (0.0, &b"<s>"[..]),
            2 => (0.0, &b"</s>"[..]),
            3 => (0.0, &b" "[..]),
            _ => (0.0, &letters[id][..]),
        })
        .collect();
    Tokenizer::parse(&tokenizer_bytes(&pieces), vocab_size).unwrap()
}

/// The pieces of a byte-level vocabulary in llama2.c's layout: control tokens, every byte (printable ASCII as itself, the
/// others by name), and joins of printable ones at random, by falling score.
pub fn byte_level_pieces(seed: u64, n_joins: usize) -> Vec<(f32, Vec<u8>)> {
    let mut numbers = Numbers(seed);
    let control = ["<unk>", "<s>", "</s>"].map(|name| (0.0, name.as_bytes().to_vec()));
    let bytes = (0..=255).map(|byte: u8| match byte {
        b' '..=b'~' => (0.0, vec![byte]),
        _ => (0.0, format!("<0x{byte:02X}>").into_bytes()),
    });
    let mut pieces: Vec<(f32, Vec<u8>)> = control.into_iter().chain(bytes).collect();
    let mut texts: Vec<Vec<u8>> = b" aeinost<0x4>".iter().map(|&byte| vec![byte]).collect();
    while pieces.len() < 259 + n_joins {
        let joined = [0, 0].map(|_| texts[numbers.below(texts.len())].clone()).concat();
        if joined.len() < 12 && !texts.contains(&joined) {
            pieces.push((-(pieces.len() as f32), joined.clone()));
            texts.push(joined);
        }
    }
    pieces
}

/// The tokenizer of these pieces.
pub fn tokenizer(pieces: &[(f32, Vec<u8>)]) -> Tokenizer {
    let borrowed: Vec<(f32, &[u8])> = pieces.iter().map(|(score, piece)| (*score, piece.as_slice())).collect();
    Tokenizer::parse(&tokenizer_bytes(&borrowed), pieces.len()).unwrap()
}
