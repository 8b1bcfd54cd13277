//! Draws follow the distribution that the record shows.

use inferscope_sampler::{Distribution, Law, Sampling, coin};

/// Pearson's statistic of `n` draws against the exact probabilities, with its degrees of freedom. Candidates expected
/// fewer than five times are taken together.
fn chi_squared(logits: &[f32], sampling: &Sampling, n: usize, seed: u32) -> (f64, f64) {
    let distribution = Distribution::new(logits, sampling);
    let mut counts = vec![0u32; logits.len()];
    for step in 0..n {
        counts[distribution.draw(coin(seed, step)) as usize] += 1;
    }
    let (mut statistic, mut cells) = (0.0, 0.0);
    let (mut rest_expected, mut rest_count) = (0.0, 0.0);
    for candidate in &distribution.candidates {
        let count = f64::from(counts[candidate.id as usize]);
        let expected = exact(logits, sampling, candidate.id) * n as f64;
        if expected < 5.0 {
            rest_expected += expected;
            rest_count += count;
        } else {
            statistic += (count - expected).powi(2) / expected;
            cells += 1.0;
        }
    }
    if rest_expected >= 5.0 {
        statistic += (rest_count - rest_expected).powi(2) / rest_expected;
        cells += 1.0;
    } else {
        assert!(rest_count <= 20.0, "{rest_count} draws where {rest_expected} were expected");
    }
    (statistic, cells - 1.0)
}

/// The probability by definition: softmax of logit / temperature over the k best, worked out without the sampler.
fn exact(logits: &[f32], sampling: &Sampling, id: u32) -> f64 {
    let temperature = sampling.get("temperature").unwrap_or(1.0);
    let k = sampling.get("top_k").map_or(logits.len(), |k| k as usize);
    let rank = |id: usize| logits.iter().filter(|&&other| other > logits[id]).count();
    let weight = |id: usize| if rank(id) < k { (f64::from(logits[id]) / temperature).exp() } else { 0.0 };
    weight(id as usize) / (0..logits.len()).map(weight).sum::<f64>()
}

#[test]
fn draws_follow_the_exact_distribution() {
    let logits: Vec<f32> = (0..60).map(|i| ((i * 37) % 60) as f32 * 0.11 - 2.0).collect();
    let settings = [
        Sampling::default(),
        Sampling::default().with("temperature", 0.8),
        Sampling::default().with("temperature", 1.7).with("top_k", 20.0),
        Sampling::default().with("temperature", 0.3).with("top_k", 5.0),
    ];
    for (seed, sampling) in (0..).zip(&settings) {
        let (statistic, freedom) = chi_squared(&logits, sampling, 40_000, seed);
        // Chi-squared has mean `freedom` and standard deviation √(2 freedom); 4.5 of them are passed by a false alarm
        // less than once in ten thousand seeds, and the seeds are fixed.
        let limit = freedom + 4.5 * (2.0 * freedom).sqrt();
        assert!(statistic < limit, "{sampling:?}: {statistic:.1} with {freedom} degrees of freedom");
    }
}

#[test]
fn a_wrong_distribution_is_noticed() {
    // Draws at temperature 1 against probabilities at 0.9: the test above would have failed.
    let logits: Vec<f32> = (0..60).map(|i| ((i * 37) % 60) as f32 * 0.11 - 2.0).collect();
    let drawn = Distribution::new(&logits, &Sampling::default());
    let claimed = Sampling::default().with("temperature", 0.9);
    let n = 40_000;
    let mut counts = vec![0.0; logits.len()];
    for step in 0..n {
        counts[drawn.draw(coin(0, step)) as usize] += 1.0;
    }
    let statistic: f64 = (0..60)
        .map(|id| {
            let expected = exact(&logits, &claimed, id) * n as f64;
            (counts[id as usize] - expected).powi(2) / expected
        })
        .sum();
    assert!(statistic > 59.0 + 4.5 * (2.0 * 59.0f64).sqrt(), "{statistic}");
}

#[test]
fn the_coin_walks_the_candidates_best_first() {
    let distribution = Distribution::new(&[2f32, 8.0, 4.0, 2.0].map(f32::ln), &Sampling::default());
    for (coin, token) in [(0.0, 1), (0.49, 1), (0.51, 2), (0.74, 2), (0.76, 0), (0.87, 0), (0.88, 3), (0.9999, 3)] {
        assert_eq!(distribution.draw(coin), token, "{coin}");
    }
    assert!((distribution.entropy() - 1.2130).abs() < 1e-4, "{}", distribution.entropy());
}

#[test]
fn a_law_is_the_distribution_without_its_record() {
    let logits: Vec<f32> = (0..60).map(|i| ((i * 37) % 60) as f32 * 0.11 - 2.0).collect();
    for sampling in [
        Sampling::default(),
        Sampling::default().with("temperature", 0.0),
        Sampling::default().with("temperature", 1.7).with("top_k", 20.0).with("top_p", 0.9),
        Sampling::default().with("min_p", 0.3),
    ] {
        let (law, distribution) = (Law::new(&logits, &sampling), Distribution::new(&logits, &sampling));
        let by_id = law.by_id();
        assert!(distribution.candidates.iter().all(|it| by_id[it.id as usize] == it.probability), "{sampling:?}");
        assert!((0..200).all(|step| law.draw(coin(5, step)) == distribution.draw(coin(5, step))), "{sampling:?}");
    }
}
