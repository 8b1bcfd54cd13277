//! A Llama's safetensors and configuration: the arithmetic that they mean, and a sentence for what is not supported.

mod support;

use half::{bf16, f16};
use inferscope_core::{Checkpoint, ConfigError, HuggingFaceError, Part};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};
use support::plain::{Pairs, Plain};
use support::small::{Header, Numbers, SHAPES, checkpoint, letters};
use support::{difference, reference, reference_models};

const HEADER: Header = [16, 20, 2, 4, 2, -40, 24];

/// A tensor on its way into a file.
#[derive(Clone)]
struct Tensor {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

fn tensors(file: &[u8]) -> Vec<Tensor> {
    let tensors = SafeTensors::deserialize(file).unwrap();
    let tensor = |(name, view): (&str, TensorView)| Tensor {
        name: name.to_string(),
        dtype: view.dtype(),
        shape: view.shape().to_vec(),
        bytes: view.data().to_vec(),
    };
    tensors.iter().map(tensor).collect()
}

fn file(tensors: &[Tensor]) -> Vec<u8> {
    let views = tensors
        .iter()
        .map(|tensor| (&tensor.name, TensorView::new(tensor.dtype, tensor.shape.clone(), &tensor.bytes).unwrap()));
    safetensors::serialize(views, None).unwrap()
}

fn numbers(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Both files of a small model.
fn written(header: Header) -> (Vec<u8>, Value) {
    let checkpoint = checkpoint(header);
    let config = checkpoint.config_json(&letters(checkpoint.shape.vocab_size));
    (checkpoint.to_safetensors(), serde_json::from_str(&config).unwrap())
}

fn read(model: &[u8], config: &Value) -> Result<Checkpoint, HuggingFaceError> {
    Checkpoint::from_safetensors(model, config.to_string().as_bytes())
}

/// What is said of the model when one tensor, found by its name, is changed.
fn with_tensor(name: &str, change: impl FnOnce(&mut Tensor)) -> HuggingFaceError {
    let (model, config) = written(HEADER);
    let mut tensors = tensors(&model);
    change(tensors.iter_mut().find(|tensor| tensor.name == name).unwrap());
    read(&file(&tensors), &config).unwrap_err()
}

/// What is said of the model when one field of its configuration is another.
fn with_field(field: &str, value: Value) -> Result<Checkpoint, HuggingFaceError> {
    let (model, mut config) = written(HEADER);
    config[field] = value;
    read(&model, &config)
}

#[test]
fn what_is_written_comes_back() {
    for (name, header) in SHAPES {
        let (model, config) = written(header);
        assert_eq!(read(&model, &config).unwrap(), checkpoint(header), "{name}");
    }
}

/// The weights as the file has them, in the places of a checkpoint, with query and key rows in the file's order.
fn as_written(checkpoint: &Checkpoint) -> Checkpoint {
    let written = checkpoint.to_safetensors();
    let tensors = SafeTensors::deserialize(&written).unwrap();
    let weights = |name: &str| numbers(tensors.tensor(name).unwrap().data());
    let mut unordered = checkpoint.clone();
    unordered.embedding = weights("model.embed_tokens.weight");
    unordered.final_norm = weights("model.norm.weight");
    unordered.output = checkpoint.output.as_ref().map(|_| weights("lm_head.weight"));
    for (i, layer) in unordered.layers.iter_mut().enumerate() {
        let weights = |name: &str| weights(&format!("model.layers.{i}.{name}.weight"));
        layer.attention_norm = weights("input_layernorm");
        layer.query = weights("self_attn.q_proj");
        layer.key = weights("self_attn.k_proj");
        layer.value = weights("self_attn.v_proj");
        layer.attention_output = weights("self_attn.o_proj");
        layer.feed_forward_norm = weights("post_attention_layernorm");
        layer.gate = weights("mlp.gate_proj");
        layer.down = weights("mlp.down_proj");
        layer.up = weights("mlp.up_proj");
    }
    unordered
}

#[test]
fn the_file_means_a_model_that_rotates_halves() {
    // Plain loops over what is in the file, turning component i with i + head_dim / 2 as transformers does.
    for (name, header) in SHAPES {
        let checkpoint = checkpoint(header);
        let unordered = as_written(&checkpoint);
        let tokens = [1, 4, 2, 6, 3, 5, 5, 0].map(|token| token % checkpoint.shape.vocab_size as u32);
        let expected = Plain::new(&checkpoint).run(&tokens);
        let logits = Plain::new(&unordered).with_pairs(Pairs::Halves).run(&tokens);
        assert!(difference(&logits, &expected) < 1e-4, "{name}");
        // With heads of two components there is only one way to pair them.
        let neighbours = Plain::new(&unordered).run(&tokens);
        let same = difference(&neighbours, &expected) < 1e-4;
        assert_eq!(same, checkpoint.shape.head_dim == 2, "{name}");
    }
}

#[test]
fn norms_may_have_any_epsilon() {
    for header in [HEADER, [16, 20, 2, 4, 2, 40, 24]] {
        // A residual stream so small that the norms feel the difference.
        let mut small = checkpoint(header);
        small.embedding.iter_mut().for_each(|weight| *weight *= 0.01);
        for layer in &mut small.layers {
            layer.attention_output.iter_mut().chain(&mut layer.down).for_each(|weight| *weight *= 0.002);
        }
        let mut config: Value = serde_json::from_str(&small.config_json(&letters(40))).unwrap();
        let tokens = [1, 4, 2, 6, 3, 5];
        let usual = Plain::new(&small).run(&tokens);
        for epsilon in [json!(1e-6), json!(1e-8), json!(3e-4), Value::Null] {
            config["rms_norm_eps"] = epsilon.clone();
            let read = read(&small.to_safetensors(), &config).unwrap();
            // transformers' own value is 1e-6.
            let epsilon = epsilon.as_f64().unwrap_or(1e-6) as f32;
            let expected = Plain::new(&small).with_epsilon(epsilon).run(&tokens);
            let (with, without) =
                (difference(&Plain::new(&read).run(&tokens), &expected), difference(&usual, &expected));
            assert!(
                with < 1e-5 && without > 100.0 * with.max(1e-6),
                "{epsilon}: within {with:e}, and {without:e} if it is ignored"
            );
        }
    }
    for (value, sentence) in [
        (json!(0), "the configuration gives 0 for rms_norm_eps, and only 1e-12 to 1 is supported here"),
        (json!(-1e-5), "the configuration gives -0.00001 for rms_norm_eps, and only 1e-12 to 1 is supported here"),
        (json!("small"), "the configuration's field rms_norm_eps is missing or not of the right type"),
    ] {
        assert_eq!(with_field("rms_norm_eps", value).unwrap_err().to_string(), sentence);
    }
}

#[test]
fn the_oracles_hold_for_what_is_written() {
    let Some(folder) = reference() else { return };
    for files in reference_models(&folder) {
        let unordered = as_written(&files.read_checkpoint());
        let oracle = files.oracles().remove(0);
        let mut plain = Plain::new(&unordered).with_pairs(Pairs::Halves);
        for (position, (&id, expected)) in oracle.ids.iter().zip(&oracle.logits).enumerate() {
            let difference = difference(&plain.run(&[id]), expected);
            assert!(difference < 1e-4, "{} position {position}: {difference:e}", files.name);
        }
    }
}

#[test]
fn halves_and_brain_floats_are_read() {
    let original = checkpoint(HEADER);
    let (model, config) = written(HEADER);
    for (dtype, bits) in [(Dtype::F16, 11), (Dtype::BF16, 8)] {
        let mut tensors = tensors(&model);
        for tensor in &mut tensors {
            let short = |weight: f32| match dtype {
                Dtype::F16 => f16::from_f32(weight).to_le_bytes(),
                _ => bf16::from_f32(weight).to_le_bytes(),
            };
            tensor.bytes = numbers(&tensor.bytes).into_iter().flat_map(short).collect();
            tensor.dtype = dtype;
        }
        let read = read(&file(&tensors), &config).unwrap();
        let mut inexact = 0;
        for part in Part::all(&original.shape) {
            for (before, after) in original.part(part).iter().zip(read.part(part)) {
                let error = (before - after).abs();
                assert!(error <= before.abs() / (1 << bits) as f32 + 1e-7, "{dtype}: {before} became {after}");
                inexact += usize::from(error > 0.0);
            }
        }
        assert!(inexact > 1000, "{dtype}: only {inexact} weights were rounded");
    }
}

#[test]
fn tensors_that_are_missing_or_too_many_are_named() {
    let (model, config) = written(HEADER);
    for missing in tensors(&model) {
        let mut tensors = tensors(&model);
        tensors.retain(|tensor| tensor.name != missing.name);
        let error = read(&file(&tensors), &config).unwrap_err();
        assert_eq!(error, HuggingFaceError::Missing { name: missing.name });
    }
    for (name, is_refused) in [
        ("model.layers.0.self_attn.q_proj.bias", true),
        ("model.layers.2.mlp.up_proj.weight", true),
        ("model.layers.1.self_attn.rotary_emb.inv_freq", false),
    ] {
        let mut tensors = tensors(&model);
        tensors.push(Tensor { name: name.into(), dtype: Dtype::F32, shape: vec![1], bytes: vec![0; 4] });
        match read(&file(&tensors), &config) {
            Ok(_) => assert!(!is_refused, "{name}"),
            Err(error) => assert_eq!((error, is_refused), (HuggingFaceError::Unexpected { name: name.into() }, true)),
        }
    }
    let deep = with_field("num_hidden_layers", json!(100_000)).unwrap_err();
    assert!(matches!(deep, HuggingFaceError::Missing { .. }), "{deep}");
    let shallow = with_field("num_hidden_layers", json!(1)).unwrap_err();
    assert!(matches!(shallow, HuggingFaceError::Unexpected { .. }), "{shallow}");
}

#[test]
fn an_output_matrix_beside_a_tied_embedding_is_not_read() {
    let (model, mut config) = written(HEADER);
    config["tie_word_embeddings"] = json!(true);
    let checkpoint = read(&model, &config).unwrap();
    assert!(checkpoint.output.is_none() && checkpoint.shape.tied_embedding);
}

#[test]
fn tensors_of_another_shape_or_type_are_named() {
    let error = with_tensor("model.layers.1.mlp.up_proj.weight", |tensor| tensor.shape.reverse());
    assert_eq!(
        error.to_string(),
        "the tensor model.layers.1.mlp.up_proj.weight has the shape [16, 20], and the configuration asks for [20, 16]"
    );
    let error = with_tensor("model.norm.weight", |tensor| tensor.dtype = Dtype::I32);
    assert_eq!(
        error.to_string(),
        "the tensor model.norm.weight has elements of the type I32, and only F32, F16 and BF16 can be read here"
    );
    for (value, name) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf")] {
        let error = with_tensor("lm_head.weight", |tensor| tensor.bytes[8..12].copy_from_slice(&value.to_le_bytes()));
        let expected = HuggingFaceError::NotFinite { name: "lm_head.weight".into(), index: 2, value: name.into() };
        assert_eq!(error, expected);
    }
}

#[test]
fn damaged_files_are_refused() {
    let (model, config) = written([8, 12, 1, 2, 1, 9, 6]);
    for length in 0..model.len() {
        let error = read(&model[..length], &config).unwrap_err();
        assert!(matches!(error, HuggingFaceError::Safetensors { .. }), "{length} bytes: {error}");
    }
    let mut longer = model.clone();
    longer.push(0);
    assert!(matches!(read(&longer, &config), Err(HuggingFaceError::Safetensors { .. })));
    // Bytes replaced at random: an error or a model, since the format has no checksum.
    let mut random = Numbers(5);
    for _ in 0..3000 {
        let mut damaged = model.clone();
        for _ in 0..1 + random.below(4) {
            // Most of them in the header, which is where it hurts.
            let at = if random.below(4) > 0 { random.below(1200) } else { random.below(model.len()) };
            damaged[at] = random.next() as u8;
        }
        if let Ok(checkpoint) = read(&damaged, &config) {
            assert_eq!(checkpoint.embedding.len(), 72);
        }
    }
}

#[test]
fn what_the_model_does_not_compute_is_refused_by_name() {
    for (field, value, sentence) in [
        (
            "model_type",
            json!("mistral"),
            "the configuration gives \"mistral\" for model_type, and only \"llama\" is supported here",
        ),
        (
            "model_type",
            Value::Null,
            "the configuration gives null for model_type, and only \"llama\" is supported here",
        ),
        (
            "hidden_act",
            json!("gelu"),
            "the configuration gives \"gelu\" for hidden_act, and only \"silu\" is supported here",
        ),
        (
            "rope_theta",
            json!(500000.0),
            "the configuration gives 500000.0 for rope_theta, and only 10000 is supported here",
        ),
        (
            "rope_scaling",
            json!({"type": "linear", "factor": 2}),
            "the configuration gives {\"factor\":2,\"type\":\"linear\"} for rope_scaling, and only none is supported here",
        ),
        (
            "rope_parameters",
            json!({"rope_theta": 2e4}),
            "the configuration gives 20000.0 for rope_theta, and only 10000 is supported here",
        ),
        (
            "rope_parameters",
            json!({"rope_type": "yarn"}),
            "the configuration gives \"yarn\" for rope_type, and only \"default\" is supported here",
        ),
        (
            "attention_bias",
            json!(true),
            "the configuration gives true for attention_bias, and only none is supported here",
        ),
        ("mlp_bias", json!(true), "the configuration gives true for mlp_bias, and only none is supported here"),
        (
            "quantization_config",
            json!({"bits": 4}),
            "the configuration gives {\"bits\":4} for quantization_config, and only none is supported here",
        ),
        (
            "head_dim",
            json!(8),
            "the configuration gives 8 for head_dim, and only hidden_size / num_attention_heads (4) is supported here",
        ),
        ("hidden_size", json!("16"), "the configuration's field hidden_size is missing or not of the right type"),
        (
            "intermediate_size",
            Value::Null,
            "the configuration's field intermediate_size is missing or not of the right type",
        ),
        (
            "num_attention_heads",
            json!(4.5),
            "the configuration's field num_attention_heads is missing or not of the right type",
        ),
    ] {
        assert_eq!(with_field(field, value).unwrap_err().to_string(), sentence);
    }
    let shape = |field, value| match with_field(field, json!(value)).unwrap_err() {
        HuggingFaceError::Config(error) => error,
        other => panic!("{field} = {value}: {other}"),
    };
    assert!(matches!(shape("vocab_size", 0), ConfigError::NotPositive { .. }));
    assert!(matches!(shape("hidden_size", -16), ConfigError::NotPositive { .. }));
    assert_eq!(shape("num_key_value_heads", 3), ConfigError::UnevenGroups { n_heads: 4, n_kv_heads: 3 });
    assert!(matches!(shape("max_position_embeddings", i64::from(i32::MAX)), ConfigError::TooLarge { .. }));
}

#[test]
fn fields_that_are_left_out_have_their_usual_values() {
    for field in ["rope_theta", "hidden_act", "head_dim", "attention_bias", "mlp_bias", "tie_word_embeddings"] {
        assert_eq!(with_field(field, Value::Null).unwrap(), checkpoint(HEADER), "{field}");
    }
    let as_today = json!({"rope_theta": 10000, "rope_type": "default"});
    assert_eq!(with_field("rope_parameters", as_today).unwrap(), checkpoint(HEADER));
    assert_eq!(with_field("max_position_embeddings", Value::Null).unwrap().shape.context, 2048);
    // As many key/value heads as query heads, which is not what the tensors are.
    let error = with_field("num_key_value_heads", Value::Null).unwrap_err();
    assert!(matches!(error, HuggingFaceError::Shape { .. }), "{error}");
}

#[test]
fn a_configuration_that_is_no_json_is_refused() {
    let (model, _) = written(HEADER);
    for config in ["", "{", "[]", "null", "{\"model_type\": \"llama\",}"] {
        let error = Checkpoint::from_safetensors(&model, config.as_bytes()).unwrap_err();
        let expected = matches!(error, HuggingFaceError::Json { .. } | HuggingFaceError::Unsupported { .. });
        assert!(expected, "{config}: {error}");
    }
}
