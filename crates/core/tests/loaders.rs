//! Files that are cut, padded, corrupted or made up: always a typed error or a usable model, never a panic.

mod support;

use inferscope_core::{Checkpoint, CheckpointError, ConfigError, Tokenizer, TokenizerError};
use support::small::{Header, Numbers, SHAPES, checkpoint_bytes, tokenizer_bytes};
use support::{reference, reference_models, story};

const HEADER: Header = [8, 12, 2, 4, 2, 9, 6];

fn with_header(header: Header) -> Result<Checkpoint, CheckpointError> {
    let mut bytes = checkpoint_bytes(HEADER);
    for (bytes, field) in bytes.chunks_exact_mut(4).zip(header) {
        bytes.copy_from_slice(&field.to_le_bytes());
    }
    Checkpoint::parse(&bytes)
}

fn with_field(field: usize, value: i32) -> Result<Checkpoint, CheckpointError> {
    let mut header = HEADER;
    header[field] = value;
    with_header(header)
}

#[test]
fn good_files_are_read() {
    let story = story();
    let shape = story.read_checkpoint().shape;
    assert_eq!((shape.dim, shape.hidden_dim, shape.n_layers), (128, 344, 5));
    assert_eq!((shape.n_heads, shape.n_kv_heads, shape.head_dim), (8, 4, 16));
    assert_eq!((shape.vocab_size, shape.context, shape.tied_embedding), (1024, 256, true));
    assert_eq!(story.read_tokenizer(1024).vocabulary().pieces.len(), 1024);
    for (name, header) in SHAPES {
        let checkpoint = Checkpoint::parse(&checkpoint_bytes(header)).unwrap();
        assert_eq!(checkpoint.output.is_some(), header[5] < 0, "{name}");
        assert_eq!(checkpoint.shape.vocab_size, header[5].unsigned_abs() as usize, "{name}");
    }
    let Some(folder) = reference() else { return };
    for files in reference_models(&folder) {
        files.read_tokenizer(files.read_checkpoint().shape.vocab_size);
    }
}

#[test]
fn tensors_are_read_in_the_order_of_the_file() {
    // Number i of the file is i, so that every tensor shows where it begins.
    let mut bytes = checkpoint_bytes([8, 12, 2, 4, 2, -9, 6]);
    for (i, number) in bytes[28..].chunks_exact_mut(4).enumerate() {
        number.copy_from_slice(&(i as f32).to_le_bytes());
    }
    let checkpoint = Checkpoint::parse(&bytes).unwrap();
    let layer = &checkpoint.layers[1];
    let mut start = 0.0;
    let mut check = |tensor: &[f32], layers: usize, len: usize| {
        assert_eq!(tensor.len(), len);
        assert_eq!(tensor[0], start + ((layers - 1) * len) as f32);
        start += (layers * len) as f32;
    };
    check(&checkpoint.embedding, 1, 72);
    check(&layer.attention_norm, 2, 8);
    check(&layer.query, 2, 64);
    check(&layer.key, 2, 32);
    check(&layer.value, 2, 32);
    check(&layer.attention_output, 2, 64);
    check(&layer.feed_forward_norm, 2, 8);
    check(&layer.gate, 2, 96);
    check(&layer.down, 2, 96);
    check(&layer.up, 2, 96);
    check(&checkpoint.final_norm, 1, 8);
    // Two tables of 6 positions and 1 pair lie between.
    assert_eq!(checkpoint.output.as_ref().unwrap()[0], start + 12.0);
}

#[test]
fn a_checkpoint_cut_anywhere_says_so() {
    let bytes = checkpoint_bytes(HEADER);
    for length in 0..bytes.len() {
        let error = Checkpoint::parse(&bytes[..length]).unwrap_err();
        match error {
            CheckpointError::NoHeader { found } => assert!(found == length && length < 28),
            CheckpointError::Truncated { expected, found } => {
                assert_eq!((expected, found), (bytes.len() as u128, length));
            }
            other => panic!("{length} bytes: {other}"),
        }
    }
    let error = Checkpoint::parse(&bytes[..100]).unwrap_err().to_string();
    assert_eq!(error, format!("the checkpoint is cut off: it has 100 bytes, and its header asks for {}", bytes.len()));
}

#[test]
fn a_checkpoint_with_something_behind_it_is_refused() {
    for extra in [1, 4, 1000] {
        let mut bytes = checkpoint_bytes(HEADER);
        let expected = bytes.len() as u128;
        bytes.resize(bytes.len() + extra, 0);
        let found = bytes.len();
        assert_eq!(Checkpoint::parse(&bytes).unwrap_err(), CheckpointError::Oversized { expected, found });
    }
}

#[test]
fn every_header_field_is_checked() {
    assert!(with_header(HEADER).is_ok());
    for (field, original) in HEADER.into_iter().enumerate() {
        for value in [0, i32::MIN, i32::MAX, 1 << 16, -7, 1, 2, 3, 5, 1 << 30] {
            if value == original {
                continue;
            }
            let error = with_field(field, value).unwrap_err();
            let negative = value <= 0 && (field != 5 || value == 0 || value == i32::MIN);
            let named = matches!(error, CheckpointError::Config(ConfigError::NotPositive { value: v, .. }) if v == i64::from(value));
            assert_eq!(named, negative, "field {field} = {value}: {error}");
            let message = error.to_string();
            assert!(message.starts_with("the checkpoint") || message.starts_with("a model"), "{message}");
        }
    }
    // All of them absurd at once: nothing overflows and nothing is allocated.
    for value in [i32::MAX, i32::MAX - 1, 1 << 30, 46_342] {
        assert!(with_header([value; 7]).is_err());
        assert!(with_header([value, value, value, 2, 2, -value, value]).is_err());
    }
}

#[test]
fn shapes_that_do_not_divide_are_named() {
    let config = |header| match with_header(header).unwrap_err() {
        CheckpointError::Config(error) => error,
        other => panic!("{other}"),
    };
    assert_eq!(config([8, 12, 2, 4, 3, 9, 6]), ConfigError::UnevenGroups { n_heads: 4, n_kv_heads: 3 });
    assert_eq!(config([8, 12, 2, 4, 8, 9, 6]), ConfigError::UnevenGroups { n_heads: 4, n_kv_heads: 8 });
    assert_eq!(config([8, 12, 2, 3, 3, 9, 6]), ConfigError::UnevenHeads { dim: 8, n_heads: 3 });
    assert_eq!(config([12, 12, 2, 4, 2, 9, 6]), ConfigError::OddHead { head_dim: 3 });
    let huge = config([2, 1, 1, 1, 1, 1, i32::MAX]);
    assert!(matches!(huge, ConfigError::TooLarge { .. }), "{huge}");
}

#[test]
fn a_weight_that_is_no_number_is_found_in_any_tensor() {
    let good = checkpoint_bytes([8, 12, 2, 4, 2, -9, 6]);
    let numbers = (good.len() - 28) / 4;
    let angles = numbers - 72 - 12..numbers - 72;
    let mut tensors = Vec::new();
    for i in 0..numbers {
        let mut bytes = good.clone();
        let value = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][i % 3];
        bytes[28 + 4 * i..][..4].copy_from_slice(&value.to_le_bytes());
        match Checkpoint::parse(&bytes) {
            Ok(_) => assert!(angles.contains(&i), "number {i}; the tables of angles are not read"),
            Err(CheckpointError::NotFinite { tensor, .. }) => tensors.push(tensor),
            Err(other) => panic!("number {i}: {other}"),
        }
    }
    tensors.dedup();
    assert_eq!(tensors.len(), 12, "{tensors:?}");
}

#[test]
fn random_bytes_are_no_checkpoint() {
    let mut numbers = Numbers(1);
    for _ in 0..3000 {
        let length = numbers.below(400);
        let mut bytes: Vec<u8> = (0..length).map(|_| numbers.next() as u8).collect();
        // Half of them with small numbers in the header, which get further.
        if length >= 28 && numbers.below(2) == 0 {
            for field in bytes[..28].chunks_exact_mut(4) {
                field.copy_from_slice(&(numbers.below(5) as i32).to_le_bytes());
            }
        }
        // Reading it is the test; by chance it may even be a model.
        if let Ok(checkpoint) = Checkpoint::parse(&bytes) {
            assert!(checkpoint.embedding.len() * 4 < length);
        }
    }
}

fn pieces() -> Vec<(f32, &'static [u8])> {
    vec![(0.0, b"<unk>"), (0.0, b"<s>"), (0.0, b"</s>"), (-1.0, b" "), (-2.0, b"a"), (-3.0, b"aa"), (0.0, b"<0x41>")]
}

#[test]
fn a_tokenizer_cut_anywhere_says_so() {
    let bytes = tokenizer_bytes(&pieces());
    assert!(Tokenizer::parse(&bytes, 7).is_ok());
    for length in 0..bytes.len() {
        let error = Tokenizer::parse(&bytes[..length], 7).unwrap_err();
        assert!(matches!(error, TokenizerError::Truncated { vocab_size: 7, .. }), "{length} bytes: {error}");
    }
    let error = Tokenizer::parse(&bytes, 8).unwrap_err();
    assert_eq!(error, TokenizerError::Truncated { token: 7, vocab_size: 8 });
    assert_eq!(error.to_string(), "the tokenizer file is cut off: it ends within token 7 of 8");
}

#[test]
fn a_tokenizer_for_another_vocabulary_is_refused() {
    let bytes = tokenizer_bytes(&pieces());
    assert_eq!(Tokenizer::parse(&bytes, 6).unwrap_err(), TokenizerError::Oversized { bytes: 14, vocab_size: 6 });
    for vocab_size in 0..3 {
        assert_eq!(Tokenizer::parse(&bytes, vocab_size).unwrap_err(), TokenizerError::TooSmall { vocab_size });
    }
    assert!(Tokenizer::parse(&bytes, usize::MAX).is_err());
}

#[test]
fn lengths_and_scores_of_tokens_are_checked() {
    let good = tokenizer_bytes(&pieces());
    for length in [-1, i32::MIN, 7, i32::MAX] {
        let mut bytes = good.clone();
        bytes[8..12].copy_from_slice(&length.to_le_bytes());
        let error = Tokenizer::parse(&bytes, 7).unwrap_err();
        assert_eq!(error, TokenizerError::Length { token: 0, length, longest: 6 });
    }
    for longest in [-1, 0, i32::MIN] {
        let mut bytes = good.clone();
        bytes[..4].copy_from_slice(&longest.to_le_bytes());
        let error = Tokenizer::parse(&bytes, 7).unwrap_err();
        assert_eq!(error, TokenizerError::Length { token: 0, length: 5, longest });
    }
    for score in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut pieces = pieces();
        pieces[4].0 = score;
        let error = Tokenizer::parse(&tokenizer_bytes(&pieces), 7).unwrap_err();
        assert_eq!(error, TokenizerError::Score { token: 4 });
    }
}

#[test]
fn random_bytes_are_no_tokenizer_or_a_usable_one() {
    let mut numbers = Numbers(2);
    let good = tokenizer_bytes(&pieces());
    let mut usable = 0;
    for _ in 0..5000 {
        let mut bytes = good.clone();
        for _ in 0..1 + numbers.below(4) {
            let at = numbers.below(bytes.len());
            bytes[at] = numbers.next() as u8;
        }
        if let Ok(tokenizer) = Tokenizer::parse(&bytes, 7) {
            let tokens = tokenizer.encode("aa <s> é");
            assert!(tokens.iter().all(|&token| token < 7));
            tokenizer.decode(&tokens);
            usable += 1;
        }
    }
    assert!(usable > 100, "only {usable} got as far as encoding");
}
