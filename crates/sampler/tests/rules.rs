//! What every rule must keep to, whichever rules there are, and what each one cuts.

use inferscope_sampler::{Control, Distribution, RULES, Sampling, carry_over, coin, default_sampling, draw, rule};

/// Logits like a model's: a few good ones and a long tail, with some ties.
fn logits(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 % n) as f32 / n as f32 * 6.0).sin() * 8.0 - (i % 5) as f32).collect()
}

/// Logits no model should give, but may.
fn hostile() -> Vec<Vec<f32>> {
    vec![
        vec![0.0],
        vec![3.0; 17],
        vec![f32::NAN; 4],
        vec![f32::NEG_INFINITY; 4],
        vec![f32::INFINITY, 1.0, f32::INFINITY, f32::NAN],
        vec![f32::NAN, -2.0, f32::NEG_INFINITY, 5.0],
        vec![f32::MAX, f32::MIN, 0.0, -0.0],
        vec![1e30, -1e30, 1e30],
    ]
}

/// Values over a control's range, its edges, and beyond.
fn values(control: &Control) -> Vec<f64> {
    let inside = (0..=8).map(|i| control.min + (control.max - control.min) * f64::from(i) / 8.0);
    let garbage = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, -0.0, f64::MIN_POSITIVE, 5e-324, 1e-9, 1e300];
    inside.chain([control.default, control.neutral, control.min + control.step]).chain(garbage).collect()
}

fn distribution(logits: &[f32], settings: &[(&str, f64)]) -> Distribution {
    let sampling = settings.iter().fold(Sampling::default(), |sampling, &(id, value)| sampling.with(id, value));
    Distribution::new(logits, &sampling)
}

/// Ids left after the settings, best first.
fn kept(logits: &[f32], settings: &[(&str, f64)]) -> Vec<u32> {
    distribution(logits, settings).candidates.iter().filter(|c| c.kept()).map(|c| c.id).collect()
}

/// What holds of every distribution.
fn check(distribution: &Distribution, vocab_size: usize) {
    let candidates = &distribution.candidates;
    assert_eq!(candidates.len(), vocab_size, "all of the vocabulary");
    assert!(candidates[0].kept() && candidates[0].probability > 0.0, "the best candidate is never cut");
    for pair in candidates.windows(2) {
        assert!((pair[0].logit, pair[1].id) > (pair[1].logit, pair[0].id), "by descending logit, ties by id");
    }
    for candidate in candidates {
        assert!(candidate.logit.is_finite() && candidate.before.is_finite() && candidate.probability.is_finite());
        if let Some(id) = &candidate.cut_by {
            assert!(rule(id).is_some(), "{id} is no rule");
            assert_eq!(candidate.probability, 0.0);
        }
    }
    for sum in [candidates.iter().map(|c| c.before).sum::<f32>(), candidates.iter().map(|c| c.probability).sum()] {
        assert!((sum - 1.0).abs() < 1e-5, "probabilities sum to {sum}");
    }
    let entropy = distribution.entropy();
    assert!((0.0..=(vocab_size as f64).ln() + 1e-6).contains(&entropy), "entropy {entropy}");
    for coin in [0.0, 0.5, 1.0 - f64::EPSILON, 1.0, 7.0, -1.0, f64::NAN] {
        let drawn = distribution.draw(coin);
        assert!(candidates.iter().any(|c| c.id == drawn && c.kept() && c.probability > 0.0), "drew {drawn} at {coin}");
    }
}

#[test]
fn any_value_of_any_rule_gives_a_distribution() {
    for logits in hostile().into_iter().chain([logits(300)]) {
        for rule in RULES {
            for value in values(&rule.control(logits.len())) {
                check(&distribution(&logits, &[(rule.id(), value)]), logits.len());
                let sampling = default_sampling().with(rule.id(), value);
                let beside_defaults = Distribution::new(&logits, &sampling);
                check(&beside_defaults, logits.len());
                for step in 0..20 {
                    let coin = coin(3, step);
                    assert_eq!(draw(&logits, &sampling, coin), beside_defaults.draw(coin));
                }
            }
        }
    }
}

#[test]
fn a_rule_signs_its_cuts() {
    for rule in RULES {
        for value in values(&rule.control(300)) {
            for candidate in distribution(&logits(300), &[(rule.id(), value)]).candidates {
                assert!(candidate.kept() || candidate.cut_by.as_deref() == Some(rule.id()));
            }
        }
    }
}

#[test]
fn a_neutral_value_changes_nothing_and_is_what_an_absent_one_means() {
    for logits in hostile().into_iter().chain([logits(300)]) {
        let plain = Distribution::new(&logits, &Sampling::default());
        for candidate in &plain.candidates {
            assert!(candidate.kept());
            assert_eq!(candidate.before, candidate.probability);
        }
        for rule in RULES {
            let neutral = rule.control(logits.len()).neutral;
            assert_eq!(distribution(&logits, &[(rule.id(), neutral)]), plain, "{}", rule.id());
            assert_eq!(distribution(&logits, &[(rule.id(), f64::NAN)]), plain, "{}", rule.id());
        }
    }
}

#[test]
fn every_rule_has_some_effect_within_its_range() {
    let logits = logits(300);
    let plain = Distribution::new(&logits, &Sampling::default());
    for rule in RULES {
        let control = rule.control(300);
        let differs = |value| distribution(&logits, &[(rule.id(), value)]) != plain;
        assert!(differs(control.min) || differs(control.max), "{}", rule.id());
    }
}

#[test]
fn controls_make_sense_for_any_vocabulary() {
    for rule in RULES {
        for vocab_size in [1, 2, 105, 1024, 200_000] {
            let control = rule.control(vocab_size);
            assert!(control.min <= control.max && control.step > 0.0, "{}", rule.id());
            for value in [control.default, control.neutral] {
                assert_eq!(control.clamp(value), value, "{}", rule.id());
            }
            assert_eq!(rule.clamp(-1e9, vocab_size), control.min);
            assert_eq!(rule.clamp(f64::INFINITY, vocab_size), control.max);
            assert_eq!(rule.clamp(f64::NAN, vocab_size), control.neutral);
            assert!(control.scale == inferscope_sampler::Scale::Linear || control.min > 0.0);
        }
    }
}

#[test]
fn rules_come_in_the_documented_order_with_names_of_their_own() {
    let ids: Vec<_> = RULES.iter().map(|rule| rule.id()).collect();
    let places: Vec<_> = ["temperature", "top_k", "top_p", "min_p"]
        .map(|id| ids.iter().position(|other| *other == id).expect("a rule of that id"))
        .to_vec();
    assert!(places.is_sorted(), "{ids:?}");
    for (i, rule) in RULES.iter().enumerate() {
        assert!(!ids[..i].contains(&rule.id()), "{} twice", rule.id());
        assert!(rule.id().chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{} is not snake case", rule.id());
        assert!(!rule.label().is_empty() && rule.explain().ends_with('.'));
    }
    let defaults = default_sampling();
    let values = ["temperature", "top_k", "top_p", "min_p"].map(|id| defaults.get(id));
    assert_eq!(values, [Some(0.8), Some(40.0), Some(1.0), Some(0.0)]);
}

#[test]
fn temperature_divides_the_logits_and_zero_takes_the_best() {
    let logits = [1.0, 3.0, 3.0, 2.0];
    let at_two = distribution(&logits, &[("temperature", 2.0)]);
    let weights = logits.map(|logit: f32| (f64::from(logit) / 2.0).exp());
    let total: f64 = weights.iter().sum();
    for candidate in &at_two.candidates {
        assert!((f64::from(candidate.probability) - weights[candidate.id as usize] / total).abs() < 1e-7);
    }
    let greedy = distribution(&logits, &[("temperature", 0.0)]);
    assert_eq!(greedy.candidates[0].id, 1, "the lower id of two equals");
    assert_eq!(greedy.candidates[0].probability, 1.0);
    assert!(greedy.candidates[1..].iter().all(|c| c.cut_by.as_deref() == Some("temperature")));
    assert_eq!(greedy.entropy(), 0.0);
    assert_eq!(distribution(&[-0.0, 0.0], &[("temperature", 0.0)]).draw(0.9), 0, "the two zeros are equal");
}

#[test]
fn top_k_keeps_k() {
    let logits = logits(300);
    let order: Vec<u32> = Distribution::new(&logits, &Sampling::default()).candidates.iter().map(|c| c.id).collect();
    for (value, count) in [(1.0, 1), (2.0, 2), (40.0, 40), (39.6, 40), (300.0, 300), (1e9, 300), (0.0, 1), (-5.0, 1)] {
        assert_eq!(kept(&logits, &[("top_k", value)]), order[..count], "k = {value}");
    }
}

#[test]
fn top_p_keeps_the_fewest_that_reach_p() {
    // Probabilities 0.5, 0.25, 0.125, 0.125: exact in binary.
    let logits = [8f32, 4.0, 2.0, 2.0].map(f32::ln);
    for (value, count) in [(0.0, 1), (0.4, 1), (0.6, 2), (0.74, 2), (0.76, 3), (0.9, 4), (0.99, 4), (1.0, 4)] {
        assert_eq!(kept(&logits, &[("top_p", value)]).len(), count, "p = {value}");
    }
    // After top-k has left 0.5 and 0.25, they are two thirds and one third.
    assert_eq!(kept(&logits, &[("top_k", 2.0), ("top_p", 0.6)]).len(), 1);
    let both = distribution(&logits, &[("top_k", 2.0), ("top_p", 0.6)]);
    assert_eq!(both.candidates[1].cut_by.as_deref(), Some("top_p"));
    assert_eq!(both.candidates[2].cut_by.as_deref(), Some("top_k"), "the first rule to cut is the one named");
    // A long tail whose sum rounds to 1 early is still kept whole at 1.
    let tail: Vec<f32> = (0..50).map(|i| -20.0 * i as f32).collect();
    assert_eq!(kept(&tail, &[("top_p", 1.0)]).len(), 50);
}

#[test]
fn min_p_compares_with_the_best() {
    let logits = [8f32, 4.0, 2.0, 1.0].map(f32::ln);
    for (value, count) in [(0.0, 4), (0.12, 4), (0.13, 3), (0.3, 2), (0.6, 1), (1.0, 1)] {
        assert_eq!(kept(&logits, &[("min_p", value)]).len(), count, "p = {value}");
    }
    assert_eq!(kept(&[2.0, 2.0, 1.0], &[("min_p", 1.0)]).len(), 2, "equals of the best stay");
    // Temperature comes first: at 2 the ratios are square roots.
    assert_eq!(kept(&logits, &[("temperature", 2.0), ("min_p", 0.6)]).len(), 2);
}

#[test]
fn settings_carried_to_another_vocabulary_mean_the_same_there() {
    let settings =
        |k: f64| Sampling::default().with("temperature", 0.7).with("top_k", k).with("of another program", 5.0);
    for (from, k, to, carried) in [
        (1024, 40.0, 105, 40.0),
        (1024, 1024.0, 105, 105.0),
        (105, 105.0, 1024, 1024.0),
        (105, 104.0, 1024, 104.0),
        (1024, 500.0, 105, 105.0),
        (105, 2000.0, 512, 512.0),
    ] {
        assert_eq!(carry_over(&settings(k), from, to), settings(carried), "{k} of {from} to {to}");
    }
}
