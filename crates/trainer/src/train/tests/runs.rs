//! Runs: the same twice, the same across an interruption, and never mixed up.

use inferscope_core::Checkpoint;
use inferscope_trace::TokenId;

use super::super::batches::Stories;
use super::super::error::TrainError;
use super::super::preset::Preset;
use super::super::saved::{History, Point, SavedRun};
use super::super::trainer::{Settings, Trainer};
use super::super::{Args, run};
use super::gradients::small;

/// Stories that count upwards from different numbers.
struct Counting;

impl Stories for Counting {
    fn tokens(&self, index: u64) -> Vec<TokenId> {
        (0..12).map(|i| 2 + ((index * 5 + i) % 30) as TokenId).collect()
    }
}

fn settings() -> Settings {
    Settings { shape: small(4, 2), tokens: 64 * 4 * 6, batch: 4, threads: 2, peak_rate: 0.01, seed: 1 }
}

fn after(trainer: &mut Trainer, steps: usize) -> Checkpoint {
    for _ in 0..steps {
        trainer.step(&Counting).expect("a step");
    }
    trainer.checkpoint()
}

/// Through a file and back, into a new trainer.
fn interrupt(trainer: &Trainer, name: &str) -> Trainer {
    let folder = std::env::temp_dir().join(format!("inferscope-train-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("run.state");
    assert!(SavedRun::read(&path).unwrap().is_none());
    let history = History { seconds: 2.5, points: vec![Point { step: 3, tokens: 768, loss: 3.0, held_out_loss: 3.5 }] };
    SavedRun::new(trainer.state().unwrap(), history.clone()).write(&path).unwrap();
    let saved = SavedRun::read(&path).unwrap().expect("it was written");
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(saved.history, history);
    Trainer::resume(settings(), saved.state).unwrap()
}

#[test]
fn an_interrupted_run_ends_bit_for_bit_where_a_straight_one_does() {
    let straight = after(&mut Trainer::new(settings()).unwrap(), 6);
    let mut first = Trainer::new(settings()).unwrap();
    let halfway = after(&mut first, 3);
    let mut second = interrupt(&first, "resume");
    assert_eq!((second.step_count(), second.checkpoint() == halfway), (3, true));
    assert!(after(&mut second, 3) == straight);
    assert!(second.is_done() && straight != halfway);
}

#[test]
fn a_run_depends_on_its_seed_and_learns() {
    let mut long = Settings { tokens: 64 * 4 * 150, ..settings() };
    let mut trainer = Trainer::new(long.clone()).unwrap();
    let before = trainer.measure(&Counting, 8);
    after(&mut trainer, 150);
    let learned = trainer.measure(&Counting, 8);
    assert!((before - 37f64.ln()).abs() < 0.1, "first weights know nothing: {before}");
    assert!(learned < before * 0.5, "{before} before, {learned} after");

    let one = after(&mut Trainer::new(long.clone()).unwrap(), 1);
    assert!(one == after(&mut Trainer::new(long.clone()).unwrap(), 1));
    long.seed = 2;
    assert!(one != after(&mut Trainer::new(long).unwrap(), 1));
}

#[test]
fn the_number_of_threads_changes_the_gradient_by_rounding_alone() {
    let reports = [1, 2, 4].map(|threads| {
        let mut trainer = Trainer::new(Settings { threads, ..settings() }).unwrap();
        trainer.step(&Counting).unwrap()
    });
    for report in reports {
        assert!((report.loss - reports[0].loss).abs() < 1e-5);
        assert!((report.gradient_norm - reports[0].gradient_norm).abs() < 1e-4 * report.gradient_norm);
    }
}

#[test]
fn a_run_goes_on_with_its_own_settings_alone() {
    let mut trainer = Trainer::new(settings()).unwrap();
    after(&mut trainer, 1);
    for (other, word) in [
        (Settings { shape: small(4, 1), ..settings() }, "shape"),
        (Settings { tokens: 4_000, ..settings() }, "tokens"),
        (Settings { batch: 2, ..settings() }, "batch"),
        (Settings { threads: 1, ..settings() }, "threads"),
        (Settings { peak_rate: 0.02, ..settings() }, "rate"),
        (Settings { seed: 5, ..settings() }, "seed"),
    ] {
        let Err(error) = Trainer::resume(other, trainer.state().unwrap()) else { panic!("{word} was not noticed") };
        assert!(matches!(error, TrainError::OtherSettings { .. }) && error.to_string().contains(word), "{error}");
    }
}

#[test]
fn settings_that_make_no_run_are_refused() {
    let refused = |settings| Trainer::new(settings).err().expect("it makes no run").to_string();
    assert!(refused(Settings { batch: 3, ..settings() }).contains("batch of 3"));
    assert!(refused(Settings { threads: 0, ..settings() }).contains("0 threads"));
    assert!(refused(Settings { tokens: 255, ..settings() }).contains("takes 256"));
    assert!(refused(Settings { peak_rate: f64::NAN, ..settings() }).contains("learning rate"));
}

#[test]
fn a_damaged_file_is_noticed() {
    let path = std::env::temp_dir().join(format!("inferscope-train-{}-damaged.state", std::process::id()));
    for bytes in [&b""[..], b"\x01short", b"\x63another version"] {
        std::fs::write(&path, bytes).unwrap();
        assert!(matches!(SavedRun::read(&path), Err(TrainError::Damaged)));
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn the_command_leaves_a_model_and_what_its_training_was_like() {
    let folder = std::env::temp_dir().join(format!("inferscope-train-{}-command", std::process::id()));
    let args = Args {
        model: Preset::Draft,
        tokens: 1024,
        batch: 2,
        seed: 1,
        rate: None,
        threads: 2,
        out: Some(folder.clone()),
        restart: false,
    };
    run(&args, &Counting, &Counting).unwrap();
    let model = Checkpoint::parse(&std::fs::read(folder.join("model.bin")).unwrap()).unwrap();
    assert_eq!((model.shape.dim, model.shape.n_kv_heads, model.shape.vocab_size), (64, 1, 1024));
    let summary: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.join("training.json")).unwrap()).unwrap();
    assert_eq!((summary["steps"].as_u64(), summary["tokens"].as_u64()), (Some(2), Some(1024)));
    assert_eq!(summary["settings"]["shape"]["hidden_dim"], 160);
    assert!(summary["held_out_loss"].as_f64().unwrap() < 7.0);

    let refused = run(&Args { seed: 2, ..args.clone() }, &Counting, &Counting).unwrap_err().to_string();
    assert!(refused.contains("--restart"), "{refused}");
    // A finished run has nothing left to do; one that begins anew comes to the same end.
    run(&args, &Counting, &Counting).unwrap();
    run(&Args { restart: true, ..args.clone() }, &Counting, &Counting).unwrap();
    assert!(Checkpoint::parse(&std::fs::read(folder.join("model.bin")).unwrap()).unwrap() == model);
    std::fs::remove_dir_all(&folder).unwrap();

    let file = std::env::temp_dir().join(format!("inferscope-train-{}-a-file", std::process::id()));
    std::fs::write(&file, b"").unwrap();
    let refused = run(&Args { out: Some(file.join("below")), ..args.clone() }, &Counting, &Counting);
    assert!(refused.unwrap_err().to_string().starts_with("cannot make the folder"));
    std::fs::remove_file(&file).unwrap();
}
