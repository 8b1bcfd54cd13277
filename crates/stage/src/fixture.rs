//! A small make-believe trace for tests: 2 layers, 2 heads, 1 KV head, head_dim 2, 6 tokens, context 12.

use std::sync::Arc;

use inferscope_trace::{
    Attention, BackendInfo, BackendKind, CacheLayout, KeyValues, ModelInfo, Phase, Piece, Prompt, Sampling, Settings,
    Step, Trace, Vocabulary, Work,
};

pub fn model() -> ModelInfo {
    ModelInfo {
        id: "fixture".into(),
        dim: 4,
        hidden_dim: 8,
        n_layers: 2,
        n_heads: 2,
        n_kv_heads: 1,
        head_dim: 2,
        vocab_size: 6,
        context: 12,
        tied_embedding: true,
    }
}

/// A run of `steps` steps over a prompt of `prompt` tokens.
pub fn trace(prompt: usize, steps: usize, cache: bool) -> Trace {
    let model = Arc::new(model());
    let pieces = ["<unk>", "<s>", " a", " b", " c", " d"];
    let pieces = pieces.iter().map(|text| Piece { bytes: text.as_bytes().to_vec(), control: text.starts_with('<') });
    let step = |index: usize| {
        let (first_position, positions) = match (index, cache) {
            (0, _) => (0, prompt),
            (_, true) => (prompt + index - 1, 1),
            (_, false) => (0, prompt + index),
        };
        let end = first_position + positions;
        let numbers = (0..2 * positions * 2).map(|i| i as f32 - 3.0).collect::<Vec<_>>();
        Arc::new(Step {
            index,
            phase: if index == 0 { Phase::Prefill } else { Phase::Decode },
            first_position,
            positions,
            token: 2 + (index % 4) as u32,
            coin: 0.5,
            chosen: false,
            logits: vec![-2.0, -1.0, 3.0, 2.0, 1.0, 0.0],
            sampling: Sampling::default().with("temperature", 1.0).with("top_k", 3.0),
            work: Work::of_step(&model, first_position, positions, cache.then_some(&CacheLayout::Contiguous)),
            milliseconds: 1.0 + index as f64,
            attention: Some(Attention {
                n_layers: 2,
                n_heads: 2,
                queries: 1,
                keys: end,
                weights: vec![1.0 / end as f32; 4 * end],
            }),
            kv: Some(KeyValues {
                first_position,
                positions,
                n_layers: 2,
                n_kv_heads: 1,
                head_dim: 2,
                keys: numbers.clone(),
                values: numbers,
            }),
        })
    };
    Trace {
        vocabulary: Arc::new(Vocabulary { pieces: pieces.collect(), bos: 1 }),
        backend: BackendInfo { kind: BackendKind::Cpu, reason: "a test".into(), adapter: None },
        settings: Settings {
            max_new_tokens: 6,
            sampling: Sampling::default(),
            seed: 1,
            cache,
            layout: CacheLayout::Contiguous,
        },
        prompt: Prompt { text: "a b".into(), tokens: (0..prompt).map(|i| 1 + (i % 5) as u32).collect() },
        steps: (0..steps).map(step).collect(),
        finish: None,
        model,
    }
}
