//! The Inferscope format and the writer of llama2.c's: what is written comes back, and every kind of damage is named.

mod support;

use half::f16;
use inferscope_core::format::GROUP;
use inferscope_core::{Checkpoint, ConfigError, ElementType, FormatError, Part};
use support::small::{Header, Numbers, SHAPES, checkpoint, checkpoint_bytes};
use support::{reference, reference_models};

const HEADER: Header = [8, 12, 2, 4, 2, -9, 6];
const ELEMENTS: [ElementType; 3] = [ElementType::F32, ElementType::F16, ElementType::Int8];

/// A shape that can be, with sizes that rarely divide by the size of a group.
fn random_header(numbers: &mut Numbers) -> Header {
    let n_kv_heads = 1 + numbers.below(3) as i32;
    let n_heads = n_kv_heads * (1 + numbers.below(3) as i32);
    let dim = n_heads * 2 * (1 + numbers.below(7) as i32);
    let vocab_size = (1 + numbers.below(50) as i32) * [1, -1][numbers.below(2)];
    let (hidden_dim, n_layers) = (1 + numbers.below(90) as i32, 1 + numbers.below(3) as i32);
    [dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, 1 + numbers.below(9) as i32]
}

/// Shapes of every kind: the fixed ones and many at random.
fn checkpoints() -> Vec<(String, Checkpoint)> {
    let mut numbers = Numbers(11);
    let random = (0..60).map(|_| random_header(&mut numbers)).map(|header| (format!("{header:?}"), header));
    let fixed = SHAPES.iter().map(|(name, header)| (name.to_string(), *header));
    fixed.chain(random).map(|(name, header)| (name, checkpoint(header))).collect()
}

/// Calls `check` with each part's weights before and after, and the number of its columns.
fn for_every_part(before: &Checkpoint, after: &Checkpoint, mut check: impl FnMut(Part, &[f32], &[f32], usize)) {
    assert_eq!(before.shape, after.shape);
    for part in Part::all(&before.shape) {
        let [_, columns] = part.size(&before.shape);
        check(part, before.part(part), after.part(part), columns);
    }
}

/// Whether no weight moved by more than half a step of its group.
fn assert_within_half_a_step(before: &[f32], after: &[f32], columns: usize, highest: f32) {
    let groups = |weights: &[f32]| -> Vec<Vec<f32>> {
        weights.chunks(columns).flat_map(|row| row.chunks(GROUP)).map(<[f32]>::to_vec).collect()
    };
    for (before, after) in groups(before).iter().zip(groups(after)) {
        let largest = before.iter().fold(0.0, |largest: f32, weight| largest.max(weight.abs()));
        // A scale is rounded to eleven bits, or to a multiple of the least f16.
        let step = largest / highest * (1.0 + 1.0 / 1024.0) + f16::MIN_POSITIVE_SUBNORMAL.to_f32();
        for (before, after) in before.iter().zip(after) {
            assert!((before - after).abs() <= step / 2.0 * 1.0001, "{before} became {after} with steps of {step}");
        }
    }
}

#[test]
fn f32_keeps_every_bit() {
    for (name, checkpoint) in checkpoints() {
        let read = Checkpoint::from_inferscope(&checkpoint.to_inferscope(ElementType::F32)).unwrap();
        assert_eq!(read, checkpoint, "{name}");
    }
}

#[test]
fn f16_keeps_eleven_bits() {
    for (_, checkpoint) in checkpoints() {
        let read = Checkpoint::from_inferscope(&checkpoint.to_inferscope(ElementType::F16)).unwrap();
        for_every_part(&checkpoint, &read, |part, before, after, _| {
            for (before, after) in before.iter().zip(after) {
                let error = (before - after).abs();
                assert!(error <= before.abs() / 2048.0 + 1e-7 && (!part.is_norm() || error == 0.0), "{before} {after}");
            }
        });
    }
}

#[test]
fn int8_moves_no_weight_by_more_than_half_a_step() {
    for (name, checkpoint) in checkpoints() {
        let file = checkpoint.to_inferscope(ElementType::Int8);
        let read = Checkpoint::from_inferscope(&file).unwrap();
        for_every_part(&checkpoint, &read, |part, before, after, columns| match part.is_norm() {
            true => assert_eq!(before, after, "{name}: norms are kept"),
            false => assert_within_half_a_step(before, after, columns, 127.0),
        });
        assert_eq!(read.to_inferscope(ElementType::Int8), file, "{name}: what was quantised stays as it is");
        assert_eq!(checkpoint.quantised(8), read, "{name}");
    }
}

#[test]
fn fewer_bits_make_longer_steps() {
    for (_, checkpoint) in checkpoints() {
        for (bits, highest) in [(2, 1.0), (3, 3.0), (4, 7.0), (5, 15.0), (8, 127.0)] {
            for_every_part(&checkpoint, &checkpoint.quantised(bits), |part, before, after, columns| {
                assert_within_half_a_step(before, after, columns, highest);
                let mut values: Vec<u32> = after[..columns.min(GROUP)].iter().map(|w| w.abs().to_bits()).collect();
                values.sort_unstable();
                values.dedup();
                assert!(part.is_norm() || values.len() <= highest as usize + 1, "{values:?} in {bits} bits");
            });
        }
    }
}

#[test]
#[should_panic(expected = "2 … 8 bits")]
fn one_bit_is_refused() {
    checkpoint(HEADER).quantised(1);
}

#[test]
fn weights_of_any_size_are_kept() {
    // From below the least f16 to beyond the greatest; zeros and a single outlier among small ones.
    for size in [0.0, 1e-40, 1e-9, 4e-8, 1e-6, 3e-4, 1.0, 60_000.0, 1e6, 8e6, 1e7, 1e30, f32::MAX] {
        let mut checkpoint = checkpoint(HEADER);
        checkpoint.layers[0].gate.iter_mut().for_each(|weight| *weight *= 0.0);
        checkpoint.layers[1].gate.iter_mut().for_each(|weight| *weight *= size);
        checkpoint.layers[1].up[5] = size;
        for element in ELEMENTS {
            let read = Checkpoint::from_inferscope(&checkpoint.to_inferscope(element)).unwrap();
            assert!(read.layers[0].gate.iter().all(|weight| *weight == 0.0));
            for_every_part(&checkpoint, &read, |_, before, after, columns| {
                assert_within_half_a_step(before, after, columns, 127.0);
            });
        }
    }
}

#[test]
fn the_main_model_takes_a_megabyte_in_eight_bits() {
    let checkpoint = checkpoint([128, 344, 5, 8, 4, 1024, 256]);
    let sizes = ELEMENTS.map(|element| checkpoint.to_inferscope(element).len());
    let parameters = checkpoint.shape.n_parameters() as usize;
    println!("{parameters} parameters take {sizes:?} bytes");
    // Each group of 32 has a scale of two bytes; a row of 344 has ten whole groups and one of 24.
    assert!(sizes[2] < parameters * 107 / 100 + 10_000, "{} bytes", sizes[2]);
    assert!(sizes[1] < parameters * 2 + 15_000 && sizes[0] < parameters * 4 + 10_000);
}

#[test]
fn a_file_cut_anywhere_says_so() {
    let file = checkpoint(HEADER).to_inferscope(ElementType::Int8);
    for length in 0..file.len() {
        match Checkpoint::from_inferscope(&file[..length]).unwrap_err() {
            FormatError::Truncated { expected, found } => assert!(found == length && expected > length as u64),
            other => panic!("{length} bytes: {other}"),
        }
    }
    let error = Checkpoint::from_inferscope(&file[..100]).unwrap_err().to_string();
    assert_eq!(error, format!("the model file is cut off: it has 100 bytes, and {} belong to it", file.len()));
}

#[test]
fn a_file_with_something_behind_it_is_refused() {
    for element in ELEMENTS {
        let mut file = checkpoint(HEADER).to_inferscope(element);
        let expected = file.len() as u64;
        file.push(0);
        let found = file.len();
        assert_eq!(Checkpoint::from_inferscope(&file).unwrap_err(), FormatError::Oversized { expected, found });
    }
}

#[test]
fn every_flipped_bit_is_found() {
    let file = checkpoint([8, 6, 1, 2, 1, 5, 4]).to_inferscope(ElementType::Int8);
    for place in 0..file.len() {
        for bit in 0..8 {
            let mut damaged = file.clone();
            damaged[place] ^= 1 << bit;
            let error = Checkpoint::from_inferscope(&damaged).unwrap_err();
            let expected = match place {
                0..8 => error == FormatError::NoMagic,
                8..12 => matches!(error, FormatError::Version { .. }),
                16..24 => matches!(error, FormatError::Truncated { .. } | FormatError::Oversized { .. }),
                _ => matches!(error, FormatError::Checksum { .. }),
            };
            assert!(expected, "bit {bit} of byte {place}: {error}");
        }
    }
}

/// The same file with its header and data changed, and a length and checksum to match.
fn remade(file: &[u8], change: impl FnOnce(&mut String, &mut Vec<u8>)) -> Vec<u8> {
    let header_bytes = u32::from_le_bytes(file[12..16].try_into().unwrap()) as usize;
    let mut header = String::from_utf8(file[24..][..header_bytes].to_vec()).unwrap();
    let mut data = file[24 + header_bytes..file.len() - 4].to_vec();
    change(&mut header, &mut data);
    let mut remade = file[..12].to_vec();
    remade.extend((header.len() as u32).to_le_bytes());
    remade.extend((24 + header.len() as u64 + data.len() as u64 + 4).to_le_bytes());
    remade.extend(header.bytes().chain(data));
    remade.extend(crc32fast::hash(&remade).to_le_bytes());
    remade
}

/// What is said of a file of this shape whose header has `to` in place of `from`.
fn with_header(from: &str, to: &str) -> FormatError {
    let file = checkpoint(HEADER).to_inferscope(ElementType::Int8);
    let remade = remade(&file, |header, _| {
        assert!(header.contains(from), "{from} is not in {header}");
        *header = header.replacen(from, to, 1);
    });
    Checkpoint::from_inferscope(&remade).unwrap_err()
}

#[test]
fn a_file_remade_without_changes_is_the_same() {
    let file = checkpoint(HEADER).to_inferscope(ElementType::F16);
    assert_eq!(remade(&file, |_, _| {}), file);
}

#[test]
fn shapes_that_can_not_be_are_named() {
    let config = |from: &str, to: &str| match with_header(from, to) {
        FormatError::Config(error) => error,
        other => panic!("{to}: {other}"),
    };
    for value in ["0", "-1", "-9223372036854775808", "2147483648", "9223372036854775807"] {
        for field in ["dim\":8", "hidden_dim\":12", "n_layers\":2", "n_heads\":4", "n_kv_heads\":2", "vocab_size\":9"] {
            let name = field.split_once(':').unwrap().0;
            let error = config(&format!("\"{field}"), &format!("\"{name}:{value}"));
            assert!(matches!(error, ConfigError::NotPositive { .. }), "{field} = {value}: {error}");
        }
    }
    assert_eq!(config("\"n_kv_heads\":2", "\"n_kv_heads\":3"), ConfigError::UnevenGroups { n_heads: 4, n_kv_heads: 3 });
    assert_eq!(config("{\"dim\":8", "{\"dim\":10"), ConfigError::UnevenHeads { dim: 10, n_heads: 4 });
    assert_eq!(config("{\"dim\":8", "{\"dim\":12"), ConfigError::OddHead { head_dim: 3 });
    let large = config("\"context\":6", "\"context\":2147483647");
    assert!(matches!(large, ConfigError::TooLarge { .. }), "{large}");
}

#[test]
fn a_directory_that_does_not_fit_the_shape_is_refused() {
    // Absurd numbers of layers and words are found before anything is made of them.
    let error = with_header("\"n_layers\":2", "\"n_layers\":100000");
    assert_eq!(error, FormatError::TensorCount { expected: 900_003, found: 21 });
    let error = with_header("\"vocab_size\":9", "\"vocab_size\":2147483647");
    assert!(matches!(error, FormatError::Weights { .. }), "{error}");
    assert!(matches!(
        with_header("\"tied_embedding\":false", "\"tied_embedding\":true"),
        FormatError::TensorCount { .. }
    ));

    let entry = |from: &str, to: &str| match with_header(from, to) {
        FormatError::Tensor { field, .. } => field,
        other => panic!("{to}: {other}"),
    };
    assert_eq!(entry("layers.1.query", "layers.1.key"), "the name");
    assert_eq!(entry("\"shape\":[9,8]", "\"shape\":[8,9]"), "the shape");
    assert_eq!(
        entry("\"shape\":[1,8],\"element\":\"f32\",\"offset\":90", "\"shape\":[1,8],\"element\":\"f32\",\"offset\":0"),
        "the offset"
    );
    assert_eq!(entry("\"bytes\":90", "\"bytes\":91"), "the number of bytes");
    assert_eq!(entry("\"element\":\"int8\"", "\"element\":\"f32\""), "the number of bytes");
    assert_eq!(entry("\"bytes\":90", "\"bytes\":18446744073709551615"), "the number of bytes");
    let error = with_header("\"bytes\":90", "\"bytes\":91").to_string();
    assert_eq!(
        error,
        "the model file's entry for the tensor embedding is wrong: the number of bytes is 91 and should be 90"
    );
}

#[test]
fn a_header_that_is_no_header_is_refused() {
    for (from, to) in [
        ("{\"shape\"", "\"shape\""),
        ("\"element\":\"int8\"", "\"element\":\"int3\""),
        ("\"dim\":8", "\"dim\":8.5"),
        ("\"dim\":8", "\"dim\":\"8\""),
        ("\"dim\":8", "\"dim\":99999999999999999999"),
        ("\"context\":6,", ""),
        ("\"context\":6,", "\"context\":6,\"colour\":1,"),
        ("\"offset\":0", "\"offset\":-1"),
    ] {
        let error = with_header(from, to);
        assert!(matches!(error, FormatError::Header { .. }), "{to}: {error}");
        assert!(error.to_string().starts_with("the model file's header can not be read ("), "{error}");
    }
    let file = checkpoint(HEADER).to_inferscope(ElementType::F16);
    let mut beyond = file[..file.len() - 4].to_vec();
    beyond[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    beyond.extend(crc32fast::hash(&beyond).to_le_bytes());
    assert!(matches!(Checkpoint::from_inferscope(&beyond), Err(FormatError::Header { .. })));
}

#[test]
fn data_of_another_length_is_refused() {
    let file = checkpoint(HEADER).to_inferscope(ElementType::F32);
    let longer = remade(&file, |_, data| data.push(0));
    assert!(matches!(Checkpoint::from_inferscope(&longer), Err(FormatError::Weights { .. })));
    let shorter = remade(&file, |_, data| data.truncate(data.len() - 4));
    assert!(matches!(Checkpoint::from_inferscope(&shorter), Err(FormatError::Weights { .. })));
}

#[test]
fn a_weight_or_scale_that_is_no_number_is_found() {
    for (element, bytes) in [
        (ElementType::F32, f32::NAN.to_le_bytes().to_vec()),
        (ElementType::F32, f32::NEG_INFINITY.to_le_bytes().to_vec()),
        (ElementType::F16, f16::NAN.to_le_bytes().to_vec()),
        (ElementType::F16, f16::INFINITY.to_le_bytes().to_vec()),
        // In eight bits, a tensor begins with its scales.
        (ElementType::Int8, f16::NAN.to_le_bytes().to_vec()),
        (ElementType::Int8, f16::INFINITY.to_le_bytes().to_vec()),
    ] {
        let file = checkpoint(HEADER).to_inferscope(element);
        let damaged = remade(&file, |_, data| data[bytes.len()..][..bytes.len()].copy_from_slice(&bytes));
        match Checkpoint::from_inferscope(&damaged).unwrap_err() {
            // The second number, or in eight bits the first of the second row.
            FormatError::NotFinite { name, index, .. } => {
                assert_eq!((name.as_str(), index), ("embedding", if element == ElementType::Int8 { 8 } else { 1 }));
            }
            other => panic!("{element:?}: {other}"),
        }
    }
}

#[test]
fn random_bytes_are_no_model() {
    let mut numbers = Numbers(4);
    let file = checkpoint(HEADER).to_inferscope(ElementType::Int8);
    for _ in 0..3000 {
        let length = numbers.below(file.len());
        let mut bytes: Vec<u8> = (0..length).map(|_| numbers.next() as u8).collect();
        // Half of them begin as they should.
        if numbers.below(2) == 0 {
            let kept = numbers.below(24).min(length);
            bytes[..kept].copy_from_slice(&file[..kept]);
        }
        assert!(Checkpoint::from_inferscope(&bytes).is_err());
    }
    // Headers with a few bytes replaced, under a right checksum.
    for _ in 0..3000 {
        let damaged = remade(&file, |header, _| {
            for _ in 0..1 + numbers.below(3) {
                let at = numbers.below(header.len());
                let byte = b"0123456789[]{},:\"-"[numbers.below(18)] as char;
                header.replace_range(at..=at, byte.encode_utf8(&mut [0; 4]));
            }
        });
        // Reading it is the test; a digit may even have been replaced by itself.
        if let Ok(read) = Checkpoint::from_inferscope(&damaged) {
            assert_eq!(read.embedding.len(), 72);
        }
    }
}

#[test]
fn llama2c_files_come_back() {
    for (name, checkpoint) in checkpoints() {
        assert_eq!(Checkpoint::parse(&checkpoint.to_llama2c()).unwrap(), checkpoint, "{name}");
    }
}

#[test]
fn files_of_others_are_written_as_they_were() {
    let Some(folder) = reference() else { return };
    for files in reference_models(&folder) {
        let original = std::fs::read(&files.checkpoint).unwrap();
        let checkpoint = Checkpoint::parse(&original).unwrap();
        let written = checkpoint.to_llama2c();
        assert_eq!(written.len(), original.len());
        let shape = &checkpoint.shape;
        let output = if shape.tied_embedding { 0 } else { shape.vocab_size * shape.dim * 4 };
        let tables = original.len() - output - shape.context * shape.head_dim * 4..original.len() - output;
        assert_eq!(written[..tables.start], original[..tables.start], "{}", files.name);
        assert_eq!(written[tables.end..], original[tables.end..], "{}", files.name);
        // The tables are cosines and sines of angles that were computed by another program.
        let numbers =
            |bytes: &[u8]| -> Vec<f32> { bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect() };
        let difference = support::difference(&numbers(&written[tables.clone()]), &numbers(&original[tables]));
        assert!(difference < 1e-4, "{}: angles differ by {difference:e}", files.name);
    }
}

#[test]
fn the_sign_of_the_vocabulary_says_whether_it_is_tied() {
    for header in [[8, 12, 2, 4, 2, 9, 6], HEADER] {
        let written = checkpoint(header).to_llama2c();
        assert_eq!(written[..28], checkpoint_bytes(header)[..28]);
    }
}
