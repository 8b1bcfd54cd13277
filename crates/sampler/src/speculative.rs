//! The *verdict* on a token that a draft model proposed: whether the target keeps it, so that what is kept and what is drawn in
//! place of the rejected follows the target's distribution exactly (Leviathan et al. 2023, "Fast Inference from Transformers
//! via Speculative Decoding", algorithm 1).

use inferscope_trace::TokenId;

use crate::distribution::pick;

/// `p` and `q` are the proposed token's probabilities under the target and under the draft, after the same rules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    pub p: f32,
    pub q: f32,
    pub accepted: bool,
}

/// Accepts `token` with probability min(1, p / q). `target` and `draft` are `[vocab]`; `coin` is uniform in [0, 1).
pub fn judge(target: &[f32], draft: &[f32], token: TokenId, coin: f64) -> Verdict {
    let (p, q) = (target[token as usize], draft[token as usize]);
    Verdict { p, q, accepted: coin * f64::from(q) < f64::from(p) }
}

/// The token that stands in for a rejected one: drawn from what the target has more of than the draft, max(0, p − q),
/// brought to a sum of 1. The largest comes first on the line that `coin` is a point of.
pub fn residual(target: &[f32], draft: &[f32], coin: f64) -> TokenId {
    let mut more: Vec<(TokenId, f32)> =
        (0..).zip(target.iter().zip(draft).map(|(p, q)| (p - q).max(0.0))).filter(|(_, more)| *more > 0.0).collect();
    if more.is_empty() {
        // Nothing is rejected where both are the same; rounding may say so all the same, and then p itself is meant.
        more = (0..).zip(target.iter().copied()).collect();
    }
    more.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    pick(more.into_iter(), coin)
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: [f32; 3] = [0.5, 0.3, 0.2];
    const Q: [f32; 3] = [0.2, 0.7, 0.1];

    #[test]
    fn a_token_is_accepted_as_often_as_p_is_of_q() {
        let share = |token| (0..1000).filter(|&i| judge(&P, &Q, token, f64::from(i) / 1000.0).accepted).count();
        assert_eq!([share(0), share(2)], [1000, 1000], "the target likes them at least as much");
        assert!((428..=430).contains(&share(1)), "{}", share(1));
        assert_eq!(judge(&P, &Q, 1, 0.5), Verdict { p: 0.3, q: 0.7, accepted: false });
        assert!(!judge(&[0.0, 1.0], &[1.0, 0.0], 0, 0.0).accepted, "what the target never writes is never kept");
    }

    #[test]
    fn what_is_kept_and_what_stands_in_come_to_the_targets_distribution() {
        let n = 400;
        let mut counts = [0.0f64; 3];
        for token in 0..3u32 {
            for i in 0..n {
                let coin = (f64::from(i) + 0.5) / f64::from(n);
                let weight = f64::from(Q[token as usize]) / f64::from(n);
                if judge(&P, &Q, token, coin).accepted {
                    counts[token as usize] += weight;
                } else {
                    for j in 0..n {
                        let other = residual(&P, &Q, (f64::from(j) + 0.5) / f64::from(n));
                        counts[other as usize] += weight / f64::from(n);
                    }
                }
            }
        }
        assert!(counts.iter().zip(P).all(|(found, p)| (found - f64::from(p)).abs() < 2e-3), "{counts:?}");
    }

    #[test]
    fn equal_distributions_leave_something_to_draw() {
        assert_eq!(residual(&P, &P, 0.6), 1);
    }
}
