//! The reference C program's runs, token for token and number for number, on the processor.

mod support;

use burn::tensor::Device;
use inferscope_core::{LanguageModel, Session};
use inferscope_trace::CacheLayout;
use support::{Files, NOTHING, Oracle, block_on, difference, greedy, reference, reference_models};

/// How far the logits of two correct programs may be apart.
const TOLERANCE: f32 = 1e-4;

/// Calls `check` with every oracle run of every model.
fn for_every_oracle(check: impl Fn(&Files, &Oracle)) {
    let Some(folder) = reference() else { return };
    for files in reference_models(&folder) {
        for oracle in files.oracles() {
            check(&files, &oracle);
        }
    }
}

#[test]
fn prompts_have_the_same_ids() {
    for_every_oracle(|files, oracle| {
        let vocab_size = files.read_checkpoint().shape.vocab_size;
        let tokenizer = files.read_tokenizer(vocab_size);
        assert_eq!(tokenizer.encode(&oracle.prompt), oracle.prompt_tokens, "{} {}", files.name, oracle.number);
    });
}

#[test]
fn greedy_runs_have_the_same_tokens_and_text() {
    for_every_oracle(|files, oracle| {
        let (model, tokenizer) = files.load(&Device::flex());
        // The program writes the token drawn at its last position too.
        let max_new_tokens = oracle.ids.len() + 1 - oracle.prompt_tokens.len();
        let settings = greedy(max_new_tokens);
        let mut session = Session::open(model, &tokenizer, &oracle.prompt, Vec::new(), settings.clone()).unwrap();
        let mut tokens = session.prompt().to_vec();
        let mut largest: f32 = 0.0;
        while !session.is_finished() {
            let (step, _) = block_on(session.step(&settings.sampling, NOTHING)).unwrap();
            if let Some(expected) = oracle.logits.get(step.end_position() - 1) {
                largest = largest.max(difference(&step.logits, expected));
            }
            tokens.push(step.token);
        }
        let name = format!("{} {}", files.name, oracle.number);
        println!("{name}: {} tokens, logits within {largest:e}", tokens.len());
        assert_eq!(tokens[..oracle.ids.len()], oracle.ids, "{name}");
        assert_eq!(tokenizer.decode(&tokens), oracle.text.trim_end_matches('\n'), "{name}");
        assert!(largest < TOLERANCE, "{name}: logits differ by {largest:e}");
    });
}

#[test]
fn logits_of_every_prompt_position_are_the_same() {
    for_every_oracle(|files, oracle| {
        let (model, _) = files.load(&Device::flex());
        let mut cache = model.new_cache(&CacheLayout::Contiguous);
        for (position, (&id, expected)) in oracle.ids.iter().zip(&oracle.logits).enumerate() {
            let output = block_on(model.forward(&[id], &mut cache, NOTHING)).unwrap();
            let difference = difference(&output.logits, expected);
            assert!(difference < TOLERANCE, "{} {} position {position}: {difference:e}", files.name, oracle.number);
        }
    });
}
