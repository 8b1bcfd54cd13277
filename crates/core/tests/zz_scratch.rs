mod support;
use burn::tensor::Device;
use inferscope_core::*;
use support::*;
fn cpu() -> f64 {
    std::fs::read_to_string("/proc/thread-self/schedstat").unwrap().split(' ').next().unwrap().parse::<f64>().unwrap()
        / 1e9
}
#[test]
fn speed() {
    let (model, tokenizer) = story().load(&Device::flex());
    let mut best = [f64::MAX; 5];
    for _ in 0..6 {
        for (k, temperature) in [0.0, 0.8].into_iter().enumerate() {
            let mut settings = greedy(200);
            settings.sampling = sampler::default_sampling().with("temperature", temperature);
            let mut session =
                Session::open(model.clone(), &tokenizer, "One day, a little fox named Zimbo", vec![], settings.clone())
                    .unwrap();
            let t = cpu();
            let mut n = 0;
            while !session.is_finished() && n < 130 {
                block_on(session.step(&settings.sampling, NOTHING)).unwrap();
                n += 1;
            }
            best[k] = best[k].min((cpu() - t) / n as f64);
        }
        for (k, observe) in [NOTHING, EVERYTHING].into_iter().enumerate() {
            let mut c = model.new_cache();
            let t = cpu();
            for i in 0..130u32 {
                block_on(model.forward(&[i + 300], &mut c, observe)).unwrap();
            }
            best[2 + k] = best[2 + k].min((cpu() - t) / 130.0);
        }
        let mut c = model.new_cache();
        let t = cpu();
        block_on(model.forward(&(300..364).collect::<Vec<_>>(), &mut c, NOTHING)).unwrap();
        best[4] = best[4].min(cpu() - t);
    }
    println!(
        "us: greedy {:.0} sampled {:.0} forward {:.0} observed {:.0} prefill64 {:.0}",
        best[0] * 1e6,
        best[1] * 1e6,
        best[2] * 1e6,
        best[3] * 1e6,
        best[4] * 1e6
    );
}
