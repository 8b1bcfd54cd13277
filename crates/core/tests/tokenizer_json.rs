//! Hugging Face's `tokenizer.json`: both of Llama's kinds, and a sentence for others.

mod support;

use inferscope_core::{SpecialTokens, Tokenizer, TokenizerError, TokenizerJsonError};
use inferscope_trace::TokenId;
use serde_json::{Value, json};
use support::small::{Numbers, byte_level_pieces, tokenizer};
use support::{reference, reference_models, story};

const TEXTS: [&str; 14] = [
    "",
    " ",
    "a",
    "Once upon a time",
    " Once upon a time",
    "One day, a little fox named Zimbo said: \"Let's go!\"",
    "  two  spaces  ",
    "line\nbreak\ttab\r\n",
    "Grüße, naïve café – “quotes”",
    "漢字とかな 🦊🦊",
    "<s> </s> <unk> <0x41>",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "12 apples, 3rd",
    "\u{0}\u{7f}\u{80}\u{10ffff}",
];

fn read(file: &Value) -> Result<Tokenizer, TokenizerJsonError> {
    Tokenizer::from_tokenizer_json(file.to_string().as_bytes(), &SpecialTokens::default())
}

fn written(tokenizer: &Tokenizer) -> Value {
    serde_json::from_str(&tokenizer.to_tokenizer_json().unwrap()).unwrap()
}

#[test]
fn llama2c_tokenizers_come_back_from_tokenizer_json() {
    let mut tokenizers = vec![("byte-level", tokenizer(&byte_level_pieces(3, 150)))];
    tokenizers.push(("story", story().read_tokenizer(1024)));
    if let Some(folder) = reference() {
        for files in reference_models(&folder) {
            tokenizers.push((files.name, files.read_tokenizer(files.read_checkpoint().shape.vocab_size)));
        }
    }
    for (name, original) in tokenizers {
        let read = read(&written(&original)).unwrap();
        assert_eq!(read.vocabulary(), original.vocabulary(), "{name}");
        for text in TEXTS {
            // What a vocabulary can not express has one unknown token for a character here, and one for a byte there.
            let known = |tokens: Vec<TokenId>| tokens.into_iter().filter(|&token| token > 0).collect::<Vec<_>>();
            assert_eq!(known(read.encode(text)), known(original.encode(text)), "{name}: {text:?}");
        }
        assert_eq!(written(&read), written(&read_again(&read)), "{name}");
    }
}

fn read_again(tokenizer: &Tokenizer) -> Tokenizer {
    read(&written(tokenizer)).unwrap()
}

#[test]
fn oracle_prompts_have_the_same_ids() {
    let Some(folder) = reference() else { return };
    for files in reference_models(&folder) {
        let read = read_again(&files.read_tokenizer(files.read_checkpoint().shape.vocab_size));
        for oracle in files.oracles() {
            assert_eq!(read.encode(&oracle.prompt), oracle.prompt_tokens, "{} {}", files.name, oracle.number);
        }
    }
}

/// A file as Llama 2 has it, small.
fn characters() -> Value {
    json!({
        "added_tokens": [
            { "id": 0, "content": "<unk>", "special": true },
            { "id": 1, "content": "<s>", "special": true },
            { "id": 2, "content": "</s>", "special": true },
        ],
        "normalizer": { "type": "Sequence", "normalizers": [
            { "type": "Prepend", "prepend": "▁" },
            { "type": "Replace", "pattern": { "String": " " }, "content": "▁" },
        ] },
        "pre_tokenizer": null,
        "post_processor": { "type": "TemplateProcessing", "single": [
            { "SpecialToken": { "id": "<s>", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } },
        ] },
        "model": {
            "type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
            "vocab": {
                "<unk>": 0, "<s>": 1, "</s>": 2, "<0xC3>": 3, "<0xA9>": 4, "▁": 5, "a": 6, "b": 7, "c": 8,
                "ab": 9, "▁ab": 10, "bc": 11, "▁▁": 12,
            },
            "merges": ["b c", "a b", "▁ ab", "▁ ▁"],
        },
    })
}

/// A file as GPT-2 has it, small: bytes are written as characters, words are split first.
fn byte_level() -> Value {
    json!({
        "added_tokens": [{ "id": 9, "content": "<|endoftext|>", "special": true }],
        "normalizer": null,
        "pre_tokenizer": { "type": "ByteLevel", "add_prefix_space": false, "use_regex": true },
        "post_processor": { "type": "ByteLevel" },
        "model": {
            "type": "BPE",
            "vocab": { "a": 0, "b": 1, "Ġ": 2, "Ċ": 3, "Ã": 4, "©": 5, "Ġa": 6, "bĠ": 7, "Ã©": 8 },
            "merges": [["b", "Ġ"], ["Ġ", "a"], ["Ã", "©"]],
        },
    })
}

#[test]
fn characters_are_joined_in_the_order_of_the_merges() {
    let tokenizer = read(&characters()).unwrap();
    let vocabulary = tokenizer.vocabulary();
    assert_eq!(vocabulary.bos, 1);
    assert_eq!(vocabulary.pieces[10].bytes, b" ab");
    assert_eq!((vocabulary.pieces[3].bytes.as_slice(), vocabulary.pieces[3].control), (&[0xC3][..], false));
    assert!(vocabulary.pieces[..3].iter().all(|piece| piece.control));
    // "b c" is listed before "a b".
    assert_eq!(tokenizer.encode("abc"), [1, 5, 6, 11]);
    assert_eq!(tokenizer.encode("ab"), [1, 10]);
    assert_eq!(tokenizer.encode("  ab"), [1, 12, 10]);
    assert_eq!(tokenizer.encode("é"), [1, 5, 3, 4]);
    assert_eq!(tokenizer.encode("xyaz"), [1, 5, 0, 6, 0], "unknown ones in a row are fused");
    assert_eq!(tokenizer.decode(&[1, 10, 3, 4]), "abé");
    assert!(tokenizer.is_end(1) && tokenizer.is_end(2) && !tokenizer.is_end(0));
}

#[test]
fn only_listed_pairs_join() {
    let mut file = characters();
    file["model"]["merges"] = json!([["b", "c"], ["a", "b"], ["▁", "a"]]);
    file["model"]["vocab"]["▁a"] = json!(13);
    let tokenizer = read(&file).unwrap();
    // " ab" is a piece, and so are " a" and "b", but nothing lists the two.
    assert_eq!(tokenizer.encode("ab"), [1, 5, 9]);
    let file = tokenizer.to_llama2c().unwrap();
    let by_pieces = Tokenizer::parse(&file, 14).unwrap();
    assert_eq!(by_pieces.vocabulary(), tokenizer.vocabulary());
}

#[test]
fn unknown_characters_are_counted_as_the_file_says() {
    let mut file = characters();
    file["model"]["fuse_unk"] = json!(false);
    assert_eq!(read(&file).unwrap().encode("xya"), [1, 5, 0, 0, 6]);
    file["model"]["unk_token"] = Value::Null;
    assert_eq!(read(&file).unwrap().encode("xya"), [1, 5, 6]);
    file["model"]["byte_fallback"] = json!(false);
    assert_eq!(read(&file).unwrap().encode("éa"), [1, 5, 6]);
}

#[test]
fn words_at_spaces_do_not_join() {
    let mut file = characters();
    file["normalizer"] = Value::Null;
    for (scheme, split, text, tokens) in [
        ("first", true, "ab ab", vec![1, 10, 10]),
        ("first", true, "  ab", vec![1, 5, 10]),
        ("first", true, "ab  ", vec![1, 10, 5, 5]),
        ("first", false, "ab  ", vec![1, 10, 12]),
        ("first", false, " ab", vec![1, 10]),
        ("never", false, "ab", vec![1, 9]),
        ("always", false, "ab", vec![1, 10]),
    ] {
        let step = json!({ "type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split });
        file["pre_tokenizer"] = step;
        let tokenizer = read(&file).unwrap();
        assert_eq!(tokenizer.encode(text), tokens, "{scheme} {split} {text:?}");
        assert_eq!(read_again(&tokenizer).encode(text), tokens, "{scheme} {split} {text:?}");
    }
}

#[test]
fn bytes_are_joined_within_words() {
    let tokenizer = read(&byte_level()).unwrap();
    assert_eq!(tokenizer.vocabulary().bos, 9);
    assert_eq!(tokenizer.vocabulary().pieces[6].bytes, b" a");
    // "b " is listed first, but a space belongs to the word after it.
    assert_eq!(tokenizer.encode("ab a"), [9, 0, 1, 6]);
    assert_eq!(tokenizer.encode("b  a\né"), [9, 1, 2, 6, 3, 8]);
    let mut whole = byte_level();
    whole["pre_tokenizer"]["use_regex"] = json!(false);
    assert_eq!(read(&whole).unwrap().encode("ab a"), [9, 0, 7, 0]);
    whole["pre_tokenizer"]["add_prefix_space"] = json!(true);
    assert_eq!(read(&whole).unwrap().encode("a"), [9, 6]);
    assert_eq!(read(&whole).unwrap().encode(" a"), [9, 6]);
    for file in [byte_level(), whole] {
        let tokenizer = read(&file).unwrap();
        for text in ["", "ab a", "b  a\né", " a", "aé é a"] {
            assert_eq!(read_again(&tokenizer).encode(text), tokenizer.encode(text), "{text:?}");
        }
    }
}

#[test]
fn a_byte_level_vocabulary_brings_every_byte_back() {
    let mut file = byte_level();
    let characters = (0..=255u8).map(|byte| match byte {
        b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF => char::from(byte),
        _ => char::from_u32(
            0x100 + (0..byte).filter(|b| !matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..)).count() as u32,
        )
        .unwrap(),
    });
    let vocabulary: serde_json::Map<String, Value> =
        characters.enumerate().map(|(id, character)| (character.to_string(), id.into())).collect();
    file["model"]["vocab"] = vocabulary.into();
    file["model"]["merges"] = json!([]);
    file["added_tokens"][0]["id"] = json!(256);
    let tokenizer = read(&file).unwrap();
    let mut numbers = Numbers(6);
    for _ in 0..200 {
        let bytes: Vec<u8> = (0..numbers.below(40)).map(|_| numbers.next() as u8).collect();
        // A space at the very beginning is taken for the one that most tokenizers add.
        if bytes.first() != Some(&b' ') {
            assert_eq!(tokenizer.decode_bytes(&tokenizer.encode_bytes(&bytes)), bytes);
        }
    }
}

#[test]
fn the_first_and_last_tokens_are_found() {
    let file = byte_level();
    let with = |special: &SpecialTokens| {
        let tokenizer = Tokenizer::from_tokenizer_json(file.to_string().as_bytes(), special).unwrap();
        let ends: Vec<TokenId> = (0..10).filter(|&token| tokenizer.is_end(token)).collect();
        (tokenizer.vocabulary().bos, ends)
    };
    assert_eq!(with(&SpecialTokens::default()), (9, vec![9]), "by their names");
    assert_eq!(with(&SpecialTokens { bos: Some(3), eos: vec![4, 5, 77] }), (3, vec![3, 4, 5]), "as config.json says");
    let mut nameless = file.clone();
    nameless["added_tokens"][0]["content"] = json!("<begin>");
    assert_eq!(read(&nameless).unwrap_err(), TokenizerJsonError::NoBos);
    nameless["post_processor"] = json!({ "type": "Sequence", "processors": [
        { "type": "ByteLevel" },
        { "type": "TemplateProcessing", "single": [{ "SpecialToken": { "id": "<begin>", "type_id": 0 } }] },
    ] });
    assert_eq!(read(&nameless).unwrap().vocabulary().bos, 9);
}

#[test]
fn other_kinds_are_refused_by_name() {
    let cases: [(&str, Value, &str); 13] = [
        (
            "/model/type",
            json!("Unigram"),
            "the tokenizer is of the kind Unigram, and only byte-pair encoding (BPE) can be read here",
        ),
        (
            "/model/type",
            json!("WordPiece"),
            "the tokenizer is of the kind WordPiece, and only byte-pair encoding (BPE) can be read here",
        ),
        (
            "/normalizer",
            json!({"type": "NFKC"}),
            "the tokenizer's normalizer is NFKC, which is not supported here: only those of Llama's two kinds are",
        ),
        (
            "/normalizer",
            Value::Null,
            "the tokenizer's pre_tokenizer is (none), which is not supported here: only those of Llama's two kinds are",
        ),
        (
            "/pre_tokenizer",
            json!({"type": "Whitespace"}),
            "the tokenizer's pre_tokenizer is Whitespace, which is not supported here: only those of Llama's two kinds are",
        ),
        (
            "/pre_tokenizer",
            json!({"type": "ByteLevel"}),
            "the tokenizer's pre_tokenizer is ByteLevel, which is not supported here: only those of Llama's two kinds are",
        ),
        ("/model/merges", json!(7), "the tokenizer's field model.merges is missing or not of the right type"),
        ("/model/merges", json!(["b c", "a z"]), "merge 1 of the tokenizer names a token that its vocabulary lacks"),
        ("/model/merges", json!(["b"]), "merge 0 of the tokenizer names a token that its vocabulary lacks"),
        (
            "/model/unk_token",
            json!("<none>"),
            "the tokenizer's field model.unk_token is missing or not of the right type",
        ),
        ("/model/vocab/a", json!(-1), "the tokenizer's field model.vocab is missing or not of the right type"),
        (
            "/model/vocab/a",
            json!(4_000_000_000u32),
            "the tokenizer's ids do not count from 0: 1 tokens have other ids than 0 to 12",
        ),
        ("/model/vocab/a", json!(7), "the tokenizer gives two tokens the id 7"),
    ];
    for (place, value, sentence) in cases {
        let mut file = characters();
        *file.pointer_mut(place).unwrap_or_else(|| panic!("{place} is not in the file")) = value;
        assert_eq!(read(&file).unwrap_err().to_string(), sentence, "{place}");
    }
    for (field, value) in [
        ("ignore_merges", json!(true)),
        ("end_of_word_suffix", json!("</w>")),
        ("continuing_subword_prefix", json!("##")),
        ("dropout", json!(0.1)),
    ] {
        let mut file = characters();
        file["model"][field] = value;
        assert!(matches!(read(&file), Err(TokenizerJsonError::Unsupported { .. })), "{field}");
    }
    let mut file = byte_level();
    file["model"]["vocab"]["字"] = json!(10);
    assert_eq!(read(&file).unwrap_err(), TokenizerJsonError::NotByteLevel { id: 10 });
}

#[test]
fn damaged_files_are_refused() {
    let file = serde_json::to_vec(&characters()).unwrap();
    for length in 0..file.len() {
        let error = Tokenizer::from_tokenizer_json(&file[..length], &SpecialTokens::default()).unwrap_err();
        assert!(matches!(error, TokenizerJsonError::Json { .. }), "{length} bytes: {error}");
    }
    let mut numbers = Numbers(7);
    let mut usable = 0;
    for _ in 0..3000 {
        let mut damaged = file.clone();
        for _ in 0..1 + numbers.below(3) {
            let at = numbers.below(damaged.len());
            damaged[at] = b"0123456789{}[]\",:abcs<>"[numbers.below(23)];
        }
        if let Ok(tokenizer) = Tokenizer::from_tokenizer_json(&damaged, &SpecialTokens::default()) {
            let tokens = tokenizer.encode("abc é  xy");
            assert!(tokens.iter().all(|&token| (token as usize) < tokenizer.vocabulary().pieces.len()));
            usable += 1;
        }
    }
    assert!(usable > 100, "only {usable} got as far as encoding");
}

#[test]
fn what_llama2c_can_not_express_is_said() {
    let reason = |file: &Value| match read(file).unwrap().to_llama2c().unwrap_err() {
        TokenizerError::NotExpressible { reason } => reason,
        other => panic!("{other}"),
    };
    assert_eq!(reason(&byte_level()), "the layout's only control tokens are its first three");
    let mut file = characters();
    file["normalizer"] = Value::Null;
    file["pre_tokenizer"] =
        json!({ "type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": false });
    assert_eq!(reason(&file), "the layout puts a space before every text");
    file["pre_tokenizer"] =
        json!({ "type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true });
    assert_eq!(reason(&file), "the layout joins across words");
    let mut file = characters();
    file["post_processor"]["single"][0]["SpecialToken"]["id"] = json!("</s>");
    assert_eq!(reason(&file), "the layout's token 1 begins every text");
}
