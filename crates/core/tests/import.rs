//! Imports: every format in any order, the oracles on what comes out, and a sentence for whatever is wrong.

mod support;

use burn::tensor::Device;
use inferscope_core::import::Foreign;
use inferscope_core::{
    Checkpoint, ElementType, ImportError, Imported, LanguageModel, MAX_IMPORT_BYTES, Model, NamedFile, Tokenizer,
    import,
};
use support::small::{Header, Numbers, SHAPES, checkpoint, tokenizer};
use support::{Files, NOTHING, block_on, difference, reference, reference_models, story};

const HEADER: Header = [8, 12, 2, 4, 2, 40, 6];

fn file(name: &str, bytes: impl Into<Vec<u8>>) -> NamedFile {
    NamedFile { name: name.into(), bytes: bytes.into() }
}

/// A tokenizer of that many tokens.
fn words(vocab_size: usize) -> Tokenizer {
    let words: Vec<(f32, Vec<u8>)> =
        (0..vocab_size).map(|id| (-(id as f32), format!("word {id}").into_bytes())).collect();
    tokenizer(&words)
}

/// A model's files in each of the formats.
fn formats(checkpoint: &Checkpoint, tokenizer: &Tokenizer) -> Vec<(&'static str, Vec<NamedFile>)> {
    let bin = || file("tok.bin", tokenizer.to_llama2c().unwrap());
    let json = || file("tokenizer.json", tokenizer.to_tokenizer_json().unwrap());
    let weights = || file("model.safetensors", checkpoint.to_safetensors());
    let config = || file("config.json", checkpoint.config_json(tokenizer));
    vec![
        ("llama2.c", vec![file("model.bin", checkpoint.to_llama2c()), bin()]),
        ("llama2.c with tokenizer.json", vec![file("model.bin", checkpoint.to_llama2c()), json()]),
        ("Inferscope", vec![file("model.infer", checkpoint.to_inferscope(ElementType::F32)), bin()]),
        ("safetensors", vec![weights(), config(), json()]),
        ("safetensors with tokenizer.bin", vec![weights(), config(), bin()]),
    ]
}

/// All orders of a few files.
fn orders(files: &[NamedFile]) -> Vec<Vec<NamedFile>> {
    if files.is_empty() {
        return vec![Vec::new()];
    }
    let mut orders = Vec::new();
    for (place, first) in files.iter().enumerate() {
        let rest = [&files[..place], &files[place + 1..]].concat();
        for mut order in self::orders(&rest) {
            order.push(first.clone());
            orders.push(order);
        }
    }
    orders
}

fn sentence(files: &[NamedFile]) -> String {
    import(files).unwrap_err().to_string()
}

#[test]
fn files_are_recognised_in_any_order_and_under_any_name() {
    for (shape, header) in SHAPES {
        let checkpoint = checkpoint(header);
        let tokenizer = words(checkpoint.shape.vocab_size);
        for (format, files) in formats(&checkpoint, &tokenizer) {
            for mut files in orders(&files) {
                files.iter_mut().enumerate().for_each(|(i, file)| file.name = format!("file {i}"));
                let imported = import(&files).unwrap();
                assert_eq!(imported.checkpoint, checkpoint, "{shape} as {format}");
                assert_eq!(imported.tokenizer.vocabulary(), tokenizer.vocabulary(), "{shape} as {format}");
            }
        }
    }
}

#[test]
fn no_size_of_a_model_is_taken_for_another_format() {
    // A width of 640 begins like a pickle, and a longest piece of 123 bytes like JSON.
    let checkpoint = checkpoint([640, 2, 1, 1, 1, 10, 2]);
    let mut pieces: Vec<(f32, Vec<u8>)> = (0..9u8).map(|id| (0.0, vec![b'a' + id])).collect();
    pieces.push((0.0, vec![b'a'; 123]));
    let tok = tokenizer(&pieces).to_llama2c().unwrap();
    assert_eq!((checkpoint.to_llama2c()[..4].to_vec(), tok[0]), (vec![0x80, 2, 0, 0], b'{'));
    let files = [file("model", checkpoint.to_llama2c()), file("tok", tok)];
    assert_eq!(import(&files).unwrap().checkpoint, checkpoint);
    let cut = [file("model", files[0].bytes[..1000].to_vec()), files[1].clone()];
    assert!(sentence(&cut).contains("the checkpoint is cut off"), "{}", sentence(&cut));
    let cut = [files[0].clone(), file("tok", files[1].bytes[..100].to_vec())];
    assert!(sentence(&cut).contains("the tokenizer file is cut off"), "{}", sentence(&cut));
}

#[test]
fn the_oracles_hold_in_every_format() {
    let Some(folder) = reference() else { return };
    for files in reference_models(&folder) {
        let original = files.read_checkpoint();
        let tokenizer = files.read_tokenizer(original.shape.vocab_size);
        for (format, given) in formats(&original, &tokenizer) {
            let name = format!("{} as {format}", files.name);
            let imported = import(&given).unwrap();
            assert_eq!(imported.checkpoint, original, "{name}");
            check_oracles(&name, &files, &imported, 1e-4);
        }
    }
}

#[test]
fn eight_bits_change_little() {
    let Some(folder) = reference() else { return };
    for files in reference_models(&folder) {
        let original = files.read_checkpoint();
        let tokenizer = file("tok.bin", std::fs::read(&files.tokenizer).unwrap());
        for (element, tolerance) in [(ElementType::F16, 0.02), (ElementType::Int8, 0.4)] {
            let small = file("model.infer", original.to_inferscope(element));
            println!("{}: {} bytes as {element:?}", files.name, small.bytes.len());
            let imported = import(&[small, tokenizer.clone()]).unwrap();
            check_oracles(&format!("{} as {element:?}", files.name), &files, &imported, tolerance);
        }
    }
}

/// Ids of the prompts, and logits of the first positions.
fn check_oracles(name: &str, files: &Files, imported: &Imported, tolerance: f32) {
    let model = Model::load(files.name, &imported.checkpoint, &Device::flex());
    let mut largest: f32 = 0.0;
    for oracle in files.oracles() {
        assert_eq!(imported.tokenizer.encode(&oracle.prompt), oracle.prompt_tokens, "{name}");
        let mut cache = model.new_cache(&inferscope_trace::CacheLayout::Contiguous);
        for (&id, expected) in oracle.ids.iter().zip(&oracle.logits) {
            let output = block_on(model.forward(&[id], &mut cache, NOTHING)).unwrap();
            largest = largest.max(difference(&output.logits, expected));
        }
    }
    println!("{name}: logits within {largest:e}");
    assert!(largest < tolerance, "{name}: logits differ by {largest:e}");
}

#[test]
fn what_is_missing_is_named() {
    let (checkpoint, tokenizer) = (checkpoint(HEADER), words(40));
    let weights = file("model.safetensors", checkpoint.to_safetensors());
    let config = file("config.json", checkpoint.config_json(&tokenizer));
    let tok = file("tok.bin", tokenizer.to_llama2c().unwrap());
    assert_eq!(sentence(&[]), "no file was given: a model is a checkpoint and its tokenizer");
    for bytes in [checkpoint.to_llama2c(), checkpoint.to_inferscope(ElementType::Int8)] {
        assert_eq!(
            sentence(&[file("mine", bytes)]),
            "the checkpoint mine also needs its tokenizer: drop tokenizer.bin or tokenizer.json with it"
        );
    }
    assert_eq!(
        sentence(&[weights.clone(), config.clone()]),
        "the checkpoint model.safetensors also needs its tokenizer: drop tokenizer.json with it and config.json"
    );
    assert_eq!(
        sentence(&[weights, tok.clone()]),
        "the checkpoint model.safetensors also needs its configuration: drop config.json with it"
    );
    assert_eq!(sentence(&[tok]), "the file tok.bin needs its checkpoint: drop both together");
    assert_eq!(sentence(&[config]), "the file config.json needs its checkpoint: drop both together");
}

#[test]
fn two_of_a_kind_are_refused() {
    let (checkpoint, tokenizer) = (checkpoint(HEADER), words(40));
    let tok = |name| file(name, tokenizer.to_llama2c().unwrap());
    let models = [file("a.bin", checkpoint.to_llama2c()), file("b.infer", checkpoint.to_inferscope(ElementType::F16))];
    assert_eq!(
        sentence(&[models[0].clone(), tok("tok.bin"), models[1].clone()]),
        "there are two of the same kind, a.bin and b.infer: drop one checkpoint at a time"
    );
    let json = file("tokenizer.json", tokenizer.to_tokenizer_json().unwrap());
    assert_eq!(
        sentence(&[tok("tok.bin"), json, models[0].clone()]),
        "there are two of the same kind, tok.bin and tokenizer.json: drop one tokenizer at a time"
    );
    let config = |name| file(name, checkpoint.config_json(&tokenizer));
    assert_eq!(
        sentence(&[config("a.json"), config("b.json")]),
        "there are two of the same kind, a.json and b.json: drop one configuration at a time"
    );
}

#[test]
fn vocabularies_must_match() {
    let checkpoint = checkpoint(HEADER);
    let model = file("model.bin", checkpoint.to_llama2c());
    for tokens in [39, 41] {
        let other = words(tokens);
        for tokenizer in [file("tok", other.to_llama2c().unwrap()), file("tok", other.to_tokenizer_json().unwrap())] {
            assert_eq!(
                sentence(&[model.clone(), tokenizer]),
                format!(
                    "the checkpoint model.bin knows 40 tokens and the tokenizer tok has {tokens}, so the two do not belong together"
                )
            );
        }
    }
}

#[test]
fn too_much_is_refused_before_it_is_looked_at() {
    let error = import(&[file("a", vec![0; MAX_IMPORT_BYTES / 2]), file("b", vec![0; MAX_IMPORT_BYTES / 2 + 1])]);
    assert_eq!(error.unwrap_err(), ImportError::TooLarge { bytes: MAX_IMPORT_BYTES + 1 });
    assert_eq!(
        sentence(&[file("large", vec![0; 23_470_000])]),
        "the files have 23.5 MB together, and 20.0 MB is the limit for a model that is to run here"
    );
    let just = import(&[file("a", vec![0; MAX_IMPORT_BYTES])]).unwrap_err();
    assert_eq!(just, ImportError::Unknown { name: "a".into() });
}

#[test]
fn an_empty_file_is_named() {
    let model = file("model.bin", checkpoint(HEADER).to_llama2c());
    assert_eq!(sentence(&[model, file("tok.bin", "")]), "the file tok.bin is empty");
}

#[test]
fn files_of_other_formats_are_named() {
    let zip = b"PK\x03\x04\x00\x00\x08\x08\x00\x00\x00\x00archive/data.pkl".as_slice();
    let cases: [(&str, &[u8], Foreign); 16] = [
        ("model.pt", zip, Foreign::PyTorch),
        ("pytorch_model.bin", zip, Foreign::PyTorch),
        ("model.pth", b"\x80\x02}q\x00", Foreign::PyTorch),
        ("model.ckpt", b"unlike any", Foreign::PyTorch),
        ("model.gguf", b"GGUF\x03\x00\x00\x00", Foreign::Gguf),
        ("model", b"GGUF\x03\x00\x00\x00", Foreign::Gguf),
        ("model.ggml", b"tjgg\x03\x00\x00\x00", Foreign::Gguf),
        ("model.onnx", b"\x08\x07\x12\x07pytorch", Foreign::Onnx),
        ("model", b"\x08\x07\x12\x07pytorch", Foreign::Onnx),
        ("MODEL.ONNX", b"\x0a\x03abc", Foreign::Onnx),
        ("tokenizer.model", b"\x0a\x0e\x0a\x05<unk>\x15", Foreign::SentencePiece),
        ("spiece", b"\x0a\x0e\x0a\x05<unk>\x15", Foreign::SentencePiece),
        ("tokenizer.model", b"\x0a\x0e\x0a\x05<pad>\x15", Foreign::SentencePiece),
        ("model.bin", b"24ka\x02\x00\x00\x00", Foreign::LaterLlama2c),
        ("model.safetensors", b"version https://git-lfs.github.com/spec/v1\noid sha256:", Foreign::GitLfsPointer),
        ("model.safetensors.index.json", b"{\"weight_map\": {}}", Foreign::ShardedIndex),
    ];
    for (name, bytes, kind) in cases {
        let error = import(&[file(name, bytes)]).unwrap_err();
        assert_eq!(error, ImportError::Foreign { name: name.into(), kind });
        let sentence = error.to_string();
        assert!(sentence.starts_with(&format!("the file {name} is ")), "{sentence}");
    }
    assert_eq!(
        sentence(&[file("model.gguf", "GGUF")]),
        "the file model.gguf is a GGUF file, which can not be read here: take the model's original files instead, model.safetensors with config.json and tokenizer.json"
    );
}

#[test]
fn files_of_no_known_format_are_named() {
    for (name, bytes) in [
        ("notes.txt", "Once upon a time there was a fox that could not read.".as_bytes()),
        (
            "photo.jpg",
            b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00\xff\xdb\x00\x43\x00\x08\x06\x06",
        ),
        ("photo.png", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x02\x00\x00\x00\x02\x00\x08\x06\x00\x00\x00"),
        ("short", b"\x01"),
        ("archive.zip", b"PK\x03\x04\x00\x00\x08\x08\x00\x00\x00\x00pictures/fox.png"),
        ("zeros", &[0; 4000]),
        ("package.json", b"{\"name\": \"a package\"}"),
        ("list.json", b"[1, 2, 3]"),
    ] {
        let error = import(&[file(name, bytes)]).unwrap_err();
        assert_eq!(error, ImportError::Unknown { name: name.into() });
    }
    assert!(sentence(&[file("a.txt", "text")]).starts_with("the file a.txt is neither a checkpoint nor a tokenizer"));
    let broken = sentence(&[file("config.json", "{\"model_type\": \"llama\",")]);
    assert!(broken.starts_with("the file config.json looks like JSON and is not: "), "{broken}");
}

#[test]
fn files_that_lie_beside_a_model_are_ignored() {
    let (checkpoint, tokenizer) = (checkpoint(HEADER), words(40));
    let (_, mut files) = formats(&checkpoint, &tokenizer).remove(3);
    files.push(file("tokenizer_config.json", "{\"tokenizer_class\": \"LlamaTokenizer\", \"bos_token\": \"<s>\"}"));
    files.push(file("special_tokens_map.json", "{\"bos_token\": \"<s>\"}"));
    files.push(file("generation_config.json", "{\"bos_token_id\": 1, \"transformers_version\": \"4.40.0\"}"));
    assert_eq!(import(&files).unwrap().checkpoint, checkpoint);
}

#[test]
fn damaged_files_are_recognised_and_named() {
    let story = story();
    let checkpoint = story.read_checkpoint();
    let tokenizer = story.read_tokenizer(checkpoint.shape.vocab_size);
    let (model, tok) = (checkpoint.to_llama2c(), std::fs::read(&story.tokenizer).unwrap());
    let cut = |bytes: &[u8]| bytes[..bytes.len() - 1000].to_vec();
    let flipped = |mut bytes: Vec<u8>| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x40;
        bytes
    };
    let infer = checkpoint.to_inferscope(ElementType::Int8);
    let weights = checkpoint.to_safetensors();
    let config = checkpoint.config_json(&tokenizer);
    let mut impossible = model.clone();
    impossible[12..16].copy_from_slice(&7i32.to_le_bytes());
    let tok_bin = || file("tok.bin", tok.clone());
    let configured = || file("config.json", config.clone());
    for (files, expected) in [
        (vec![file("a.bin", cut(&model)), tok_bin()], "the file a.bin can not be used: the checkpoint is cut off"),
        (
            vec![file("a.bin", [&model[..], b"more"].concat()), tok_bin()],
            "the file a.bin can not be used: the checkpoint is too long",
        ),
        (
            vec![file("a.bin", impossible), tok_bin()],
            "the file a.bin can not be used: the checkpoint declares 7 query heads",
        ),
        (vec![file("a.infer", cut(&infer)), tok_bin()], "the file a.infer can not be used: the model file is cut off"),
        (
            vec![file("a.infer", flipped(infer.clone())), tok_bin()],
            "the file a.infer can not be used: the model file is damaged",
        ),
        (
            vec![file("a.infer", infer[..10].to_vec()), tok_bin()],
            "the file a.infer can not be used: the model file is cut off",
        ),
        (
            vec![file("a.bin", model.clone()), file("t.bin", cut(&tok))],
            "the file t.bin can not be used: the tokenizer file is cut off",
        ),
        (
            vec![file("m.safetensors", cut(&weights)), configured(), tok_bin()],
            "the file m.safetensors can not be used: the safetensors file is cut off or damaged",
        ),
        (
            vec![file("m.safetensors", weights.clone()), file("c.json", config.replace("llama", "mamba")), tok_bin()],
            "the file c.json can not be used: the configuration gives \"mamba\" for model_type",
        ),
        (
            vec![
                file("m.safetensors", weights.clone()),
                configured(),
                file("t.json", "{\"model\": {\"type\": \"Unigram\"}}"),
            ],
            "the file t.json can not be used: the tokenizer is of the kind Unigram",
        ),
    ] {
        let sentence = sentence(&files);
        assert!(sentence.starts_with(expected), "{sentence}");
    }
}

#[test]
fn random_bytes_are_no_model() {
    let (checkpoint, tokenizer) = (checkpoint(HEADER), words(40));
    let mut numbers = Numbers(9);
    for (_, files) in formats(&checkpoint, &tokenizer) {
        for _ in 0..300 {
            let mut files = files.clone();
            for _ in 0..1 + numbers.below(3) {
                let which = numbers.below(files.len());
                let bytes = &mut files[which].bytes;
                // Most of them where formats are recognised.
                let at = if numbers.below(2) == 0 { numbers.below(30) } else { numbers.below(bytes.len()) };
                bytes[at] = numbers.next() as u8;
            }
            match import(&files) {
                Ok(imported) => assert_eq!(imported.checkpoint.embedding.len(), checkpoint.embedding.len()),
                Err(error) => assert!(error.to_string().starts_with("the "), "{error}"),
            }
        }
    }
}
