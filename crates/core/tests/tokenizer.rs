//! Splitting text, against the definition: the best join of all neighbours, again and again.

mod support;

use std::collections::HashMap;

use inferscope_core::Tokenizer;
use inferscope_trace::TokenId;
use support::small::{Numbers, byte_level_pieces, tokenizer, tokenizer_bytes};
use support::story;

const TEXTS: [&str; 12] = [
    "",
    " ",
    "a",
    "Once upon a time",
    "One day, a little fox named Zimbo",
    "  two  spaces  ",
    "line\nbreak\ttab\r\n",
    "Grüße, naïve café – “quotes”",
    "漢字とかな 🦊🦊",
    "<s> </s> <unk> <0x41>",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "\u{0}\u{7f}\u{80}\u{10ffff}",
];

fn own() -> Tokenizer {
    story().read_tokenizer(1024)
}

/// A vocabulary of the letters a to d and many random words of them, with few different scores.
fn made_up(seed: u64) -> (Tokenizer, Vec<(f32, Vec<u8>)>) {
    let mut numbers = Numbers(seed);
    let mut pieces: Vec<(f32, Vec<u8>)> =
        [&b"<unk>"[..], b"<s>", b"</s>", b" ", b"a", b"b", b"c", b"d"].map(|piece| (0.0, piece.to_vec())).to_vec();
    for _ in 0..60 {
        let word: Vec<u8> = (0..2 + numbers.below(3)).map(|_| b" abcd"[numbers.below(5)]).collect();
        if !pieces.iter().any(|(_, piece)| *piece == word) {
            pieces.push((numbers.below(6) as f32 - 3.0, word));
        }
    }
    // Both zeros are one score.
    pieces.iter_mut().skip(8).step_by(2).for_each(|piece| piece.0 *= -1.0);
    (tokenizer(&pieces), pieces)
}

/// Joins the best pair of neighbours, the leftmost of equals, until none joins.
fn merge_by_definition(pieces: &[(f32, Vec<u8>)], text: &str) -> Vec<TokenId> {
    let ids: HashMap<&[u8], TokenId> = (0..).zip(pieces).map(|(id, (_, piece))| (piece.as_slice(), id)).collect();
    let mut tokens: Vec<TokenId> = format!(" {text}").bytes().map(|byte| ids[&[byte][..]]).collect();
    loop {
        let mut best: Option<(f32, usize, TokenId)> = None;
        for place in 0..tokens.len() - 1 {
            let piece = |place: usize| pieces[tokens[place] as usize].1.as_slice();
            let joined = [piece(place), piece(place + 1)].concat();
            if let Some(&id) = ids.get(joined.as_slice()) {
                let score = pieces[id as usize].0;
                if best.is_none_or(|(best, ..)| score > best) {
                    best = Some((score, place, id));
                }
            }
        }
        let Some((_, place, id)) = best else { break };
        tokens.splice(place..place + 2, [id]);
    }
    tokens.insert(0, 1);
    tokens
}

#[test]
fn joins_are_those_of_the_definition() {
    let mut numbers = Numbers(3);
    for seed in 0..40 {
        let (tokenizer, pieces) = made_up(seed);
        for _ in 0..50 {
            let text: String = (0..1 + numbers.below(40)).map(|_| b" abcd"[numbers.below(5)] as char).collect();
            assert_eq!(tokenizer.encode(&text), merge_by_definition(&pieces, &text), "{text:?} with {pieces:?}");
        }
    }
}

#[test]
fn any_text_comes_back() {
    let tokenizer = own();
    for text in TEXTS {
        let tokens = tokenizer.encode(text);
        assert_eq!(tokens[0], 1, "BOS comes first");
        assert_eq!(tokenizer.decode(&tokens), text);
        assert!(tokens[1..].iter().all(|&token| token > 2), "{text:?} holds no control token: {tokens:?}");
    }
}

#[test]
fn an_empty_text_is_bos_alone() {
    assert_eq!(own().encode(""), [1]);
    assert_eq!(own().decode(&[1]), "");
}

#[test]
fn unknown_characters_become_their_bytes_or_the_unknown_token() {
    let tokenizer = own();
    let fox = tokenizer.encode("🦊");
    let bytes: Vec<_> = fox[2..].iter().map(|&token| tokenizer.vocabulary().pieces[token as usize].bytes[0]).collect();
    assert_eq!(bytes, "🦊".as_bytes());
    let (letters, _) = made_up(1);
    assert_eq!(letters.encode("é")[2..], [0, 0], "one for each byte");
    assert_eq!(letters.decode(&letters.encode("aéb")), "ab", "the unknown token writes nothing");
}

#[test]
fn names_of_control_and_byte_tokens_are_only_letters() {
    let pieces: [(f32, &[u8]); 10] = [
        (0.0, b"<unk>"),
        (0.0, b"\n<s>\n"),
        (0.0, b"</s>"),
        (0.0, b" "),
        (0.0, b"<"),
        (0.0, b"/s>"),
        (0.0, b"0x41>"),
        (0.0, b"<0x41>"),
        (0.0, b"/"),
        (0.0, b"s>"),
    ];
    let tokenizer = Tokenizer::parse(&tokenizer_bytes(&pieces), 10).unwrap();
    let vocabulary = tokenizer.vocabulary();
    let names: Vec<_> = vocabulary.pieces[..3].iter().map(|piece| (piece.bytes.as_slice(), piece.control)).collect();
    assert_eq!(names, [(&b"<unk>"[..], true), (b"<s>", true), (b"</s>", true)]);
    assert_eq!(vocabulary.bos, 1);
    assert_eq!((&vocabulary.pieces[7].bytes, vocabulary.pieces[7].control), (&b"A".to_vec(), false));
    assert_eq!(tokenizer.encode("A"), [1, 3, 7], "a byte token stands for its byte");
    assert!(!tokenizer.encode("</s>").contains(&2));
}

#[test]
fn a_leading_space_is_dropped_after_bos_only() {
    let tokenizer = own();
    let tokens = tokenizer.encode("One day");
    assert_eq!(tokenizer.decode(&tokens), "One day");
    assert_eq!(tokenizer.decode(&tokens[1..]), " One day");
}

#[test]
fn a_long_text_is_split_in_reasonable_time() {
    // Looking at all neighbours after each join would take 10¹¹ comparisons here.
    let text = "once there was a fox ".repeat(20_000);
    let tokens = own().encode(&text);
    assert!(tokens.len() < text.len());
    assert_eq!(own().decode(&tokens), text);
}

/// Texts of many alphabets, and bytes that are no text.
fn random_bytes(numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..numbers.below(30) {
        match numbers.below(4) {
            0 => bytes.push(numbers.next() as u8),
            1 => bytes.extend(b" aeinost<0x41>\n"[numbers.below(15)..].iter().take(3)),
            2 => bytes.extend(["é", "漢", "🦊", "\u{0}", "▁", "Ġ"][numbers.below(6)].bytes()),
            _ => bytes.push(b" aeinost"[numbers.below(8)]),
        }
    }
    bytes
}

#[test]
fn every_byte_string_comes_back_from_a_byte_level_vocabulary() {
    let mut numbers = Numbers(21);
    for seed in 0..20 {
        let tokenizer = tokenizer(&byte_level_pieces(seed, 100));
        for _ in 0..200 {
            let bytes = random_bytes(&mut numbers);
            let tokens = tokenizer.encode_bytes(&bytes);
            assert!(tokens[0] == 1 && tokens[1..].iter().all(|&token| token > 2), "{bytes:?} holds no control token");
            assert_eq!(tokenizer.decode_bytes(&tokens), bytes);
            let text = String::from_utf8_lossy(&bytes);
            assert_eq!(tokenizer.decode(&tokenizer.encode(&text)), text);
        }
        let every_byte: Vec<u8> = (0..=255).collect();
        assert_eq!(tokenizer.decode_bytes(&tokenizer.encode_bytes(&every_byte)), every_byte);
    }
}

#[test]
fn a_byte_has_its_token_however_it_is_written() {
    let pieces = byte_level_pieces(1, 0);
    let tokenizer = tokenizer(&pieces);
    for byte in 0..=255u8 {
        // BOS, the space before every text, the byte.
        assert_eq!(tokenizer.encode_bytes(&[byte]), [1, u32::from(b' ') + 3, u32::from(byte) + 3]);
        assert_eq!(tokenizer.vocabulary().pieces[usize::from(byte) + 3].bytes, [byte]);
    }
}

#[test]
fn bytes_that_are_written_as_themselves_join() {
    let mut pieces = byte_level_pieces(1, 0);
    pieces.extend([(-1.0, b"ab".to_vec()), (-2.0, b" ab".to_vec()), (-3.0, b"\nab".to_vec())]);
    let tokenizer = tokenizer(&pieces);
    assert_eq!(tokenizer.encode("ab"), [1, 260]);
    // The line break is written by name, and those join with nothing.
    assert_eq!(tokenizer.encode("\nab"), [1, 35, 13, 259]);
}

#[test]
fn a_text_is_encoded_as_its_bytes_are() {
    let mut numbers = Numbers(23);
    let tokenizer = own();
    for _ in 0..300 {
        let bytes = random_bytes(&mut numbers);
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(tokenizer.encode(&text), tokenizer.encode_bytes(text.as_bytes()));
        assert_eq!(tokenizer.decode(&tokenizer.encode(&text)), text);
    }
}

#[test]
fn what_is_written_for_llama2c_comes_back() {
    let mut tokenizers: Vec<Tokenizer> = (0..5).map(|seed| made_up(seed).0).collect();
    tokenizers.extend([own(), tokenizer(&byte_level_pieces(3, 50))]);
    let mut numbers = Numbers(25);
    for original in tokenizers {
        let vocabulary = original.vocabulary();
        let written = original.to_llama2c().unwrap();
        let read = Tokenizer::parse(&written, vocabulary.pieces.len()).unwrap();
        assert_eq!(read.vocabulary(), vocabulary);
        assert_eq!(read.to_llama2c().unwrap(), written);
        for _ in 0..100 {
            let bytes = random_bytes(&mut numbers);
            assert_eq!(read.encode_bytes(&bytes), original.encode_bytes(&bytes));
        }
    }
    // Nothing is lost of a file whose control tokens have the usual names.
    let pieces = byte_level_pieces(4, 50);
    let borrowed: Vec<(f32, &[u8])> = pieces.iter().map(|(score, piece)| (*score, piece.as_slice())).collect();
    assert_eq!(tokenizer(&pieces).to_llama2c().unwrap(), tokenizer_bytes(&borrowed));
}
