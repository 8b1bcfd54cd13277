//! A *model card* tells a reader what a model is, what it was made from, how good it is and what it can not do (Mitchell et
//! al. 2019, "Model Cards for Model Reporting"). Every figure on it comes from the evaluation or the training run.

use std::fmt::Write;

use serde::Deserialize;

use super::Evaluation;

/// What training leaves beside a model, as far as a card needs it.
#[derive(Debug, Deserialize)]
pub struct Training {
    /// The preset's name.
    pub model: String,
    pub steps: u64,
    pub tokens: u64,
    pub seconds: f64,
    pub tokens_per_second: f64,
    pub loss: f64,
    pub held_out_loss: f64,
    pub settings: Settings,
}

#[derive(Debug, Deserialize)]
pub struct Settings {
    pub batch: usize,
    pub seed: u64,
    pub peak_rate: f64,
}

/// The card as Markdown.
pub fn card(evaluation: &Evaluation, training: &Training) -> String {
    let Evaluation { shape, held_out, .. } = evaluation;
    let mut out = String::new();
    let attention = match shape.n_kv_heads {
        1 => "multi-query attention: all query heads share one head of keys and values",
        kv if kv == shape.n_heads => "multi-head attention: every query head has keys and values of its own",
        _ => "grouped-query attention: some query heads share a head of keys and values",
    };
    let _ = write!(
        out,
        "# {model}\n\n\
        A language model for teaching. It writes small English children's stories and knows nothing else: it can not answer \
        questions, follow instructions, count, or talk about the world, and a prompt that is not the beginning of such a \
        story makes it stumble back into one.\n\n\
        Written by `cargo run --release -p inferscope-trainer -- eval --cards`; every figure is measured on the file that \
        ships.\n\n\
        ## Shape\n\n\
        | | |\n|---|---|\n\
        | family | Llama: RMSNorm, rotary positions, SwiGLU, tied embedding |\n\
        | attention | {attention} |\n\
        | width, feed-forward width | {dim}, {hidden} |\n\
        | layers | {layers} |\n\
        | query heads, KV heads, width of a head | {heads}, {kv}, {head_dim} |\n\
        | vocabulary, context | {vocab}, {context} tokens |\n\
        | weights | {parameters} |\n\
        | KV cache | {cache} bytes a token in f32 |\n\
        | file | {bytes} bytes, int8 in groups of 32 |\n\n",
        model = evaluation.model,
        dim = shape.dim,
        hidden = shape.hidden_dim,
        layers = shape.n_layers,
        heads = shape.n_heads,
        kv = shape.n_kv_heads,
        head_dim = shape.head_dim,
        vocab = shape.vocab_size,
        context = shape.context,
        parameters = evaluation.parameters,
        cache = 2 * shape.n_layers * shape.kv_dim() * 4,
        bytes = evaluation.file_bytes,
    );
    let _ = write!(
        out,
        "## Training\n\n\
        Data: stories from the seeded grammar in `crates/trainer/corpus`, made while training, none seen twice, no text of \
        anybody else. The tokenizer is byte-level BPE learned from the same stories.\n\n\
        | | |\n|---|---|\n\
        | tokens | {tokens} |\n\
        | steps, sequences a step | {steps}, {batch} |\n\
        | optimizer | Muon for the matrices of the layers, AdamW for the rest; highest rate {rate} |\n\
        | time | {seconds:.0} s on two processor cores, {speed:.0} tokens/s |\n\
        | loss at the end, training and held out | {loss:.4}, {held_out:.4} nats a token over whole rows |\n\n\
        Again: `cargo run --release -p inferscope-trainer -- train --model {preset} --tokens {tokens} --batch {batch} --seed \
        {seed}`\n\n",
        tokens = training.tokens,
        steps = training.steps,
        batch = training.settings.batch,
        rate = training.settings.peak_rate,
        seconds = training.seconds,
        speed = training.tokens_per_second,
        loss = training.loss,
        held_out = training.held_out_loss,
        preset = training.model,
        seed = training.settings.seed,
    );
    let _ = write!(
        out,
        "## Evaluation\n\n\
        On {stories} stories of a seed that training never sees, {positions} positions.\n\n\
        | | |\n|---|---|\n\
        | held-out loss | {loss:.4} nats a token |\n\
        | the same with int4 weights | {int4:+.4} |\n\
        | mean entropy of its expectations | {entropy:.3} nats |\n\
        | positions with more than 1 nat | {open:.1} % |\n",
        stories = evaluation.held_out_stories,
        positions = held_out.positions,
        loss = held_out.loss,
        int4 = evaluation.loss_int4 - held_out.loss,
        entropy = held_out.entropy,
        open = 100.0 * held_out.open,
    );
    if let Some(trained) = evaluation.loss_as_trained {
        let _ = writeln!(
            out,
            "| what the int8 weights of the file add to the loss | {:+.4} nats |",
            held_out.loss - trained
        );
    }
    for copy in &evaluation.copy {
        let rate = copy.rate.map_or("none".into(), |rate| format!("{rate:.3}"));
        let _ = writeln!(
            out,
            "| made-up names spelled as introduced, temperature {} | {rate} of {} |",
            copy.temperature, copy.names
        );
    }
    if let Some(acceptance) = evaluation.acceptance {
        let _ = writeln!(out, "| tokens of the draft model that it accepts, temperature 1 | {acceptance:.3} |");
    }
    let _ = write!(
        out,
        "\nInduction score of each head: how much of its weight lies, on the mean, on what followed in the earlier mentions of a made-up name.\n\n\
        | layer |{}\n|---|{}\n",
        (1..=shape.n_heads).map(|head| format!(" head {head} |")).collect::<String>(),
        "---|".repeat(shape.n_heads),
    );
    for (layer, heads) in evaluation.induction.iter().enumerate() {
        let _ = writeln!(
            out,
            "| {} |{}",
            layer + 1,
            heads.iter().map(|score| format!(" {score:.2} |")).collect::<String>()
        );
    }
    out.push_str("\n## What it writes\n");
    for sample in &evaluation.samples {
        let _ = write!(out, "\nTemperature {}:\n\n> {}\n", sample.temperature, sample.text.replace('\n', "\n>\n> "));
    }
    out.push_str(
        "\n## Limits and licence\n\n\
        It repeats itself, mixes people up, and now and then contradicts what it said. Its stories mean nothing and name \
        nobody real. Licence: MIT or Apache-2.0, at your choice, like the rest of the project.\n",
    );
    out
}
