use burn::tensor::*;
fn cpu() -> f64 {
    std::fs::read_to_string("/proc/thread-self/schedstat").unwrap().split(' ').next().unwrap().parse::<f64>().unwrap()
        / 1e9
}
fn time(name: &str, mut f: impl FnMut()) {
    let mut best = f64::MAX;
    for _ in 0..300 {
        let t = std::time::Instant::now();
        for _ in 0..20 {
            f();
        }
        best = best.min(t.elapsed().as_secs_f64() / 20.0);
    }
    println!("{name:40} {:.2} us", best * 1e6);
}
#[test]
fn ops() {
    let d = Device::flex();
    let x = Tensor::<2>::ones([1, 128], &d);
    let w = |a, b| Tensor::<2>::random([a, b], Distribution::Default, &d);
    let (qkv, o, gu, down, out) = (w(128, 256), w(128, 128), w(128, 688), w(344, 128), w(128, 1024));
    let emb = w(1024, 128);
    time("qkv", || {
        let _ = x.clone().matmul(qkv.clone());
    });
    time("wo", || {
        let _ = x.clone().matmul(o.clone());
    });
    time("gate_up", || {
        let _ = x.clone().matmul(gu.clone());
    });
    let h = Tensor::<2>::ones([1, 344], &d);
    time("down", || {
        let _ = h.clone().matmul(down.clone());
    });
    time("out", || {
        let _ = x.clone().matmul(out.clone());
    });
    time("out emb.T", || {
        let _ = x.clone().matmul(emb.clone().transpose());
    });
    let rot = Tensor::<3>::ones([256, 16, 16], &d);
    let heads = Tensor::<3>::ones([1, 16, 16], &d);
    time("rotate", || {
        let _ = heads.clone().narrow(1, 0, 12).matmul(rot.clone().narrow(0, 5, 1));
    });
    time("narrow", || {
        let _ = rot.clone().narrow(0, 5, 1);
    });
    time("reshape", || {
        let _ = heads.clone().reshape([4, 4, 16]);
    });
    let mut buf = Tensor::<3>::zeros([4, 256, 16], &d);
    let col = Tensor::<3>::ones([1, 4, 16], &d);
    time("slice_assign inplace", || {
        buf.inplace(|b| b.slice_assign(s![.., 5..6, ..], col.clone().swap_dims(0, 1)));
    });
    time("extract", || {
        let b = buf.extract();
        buf = b;
    });
    let q = Tensor::<3>::ones([4, 2, 16], &d);
    for keys in [16, 100, 250] {
        let k = buf.clone().narrow(1, 0, keys);
        time(&format!("q.kT {keys}"), || {
            let _ = q.clone().matmul(k.clone().transpose());
        });
        let s = q.clone().matmul(k.clone().transpose());
        time(&format!("softmax {keys}"), || {
            let _ = activation::softmax(s.clone(), 2);
        });
        let kt = Tensor::<3>::ones([4, 16, 256], &d).narrow(2, 0, keys);
        time(&format!("q.kT stored transposed {keys}"), || {
            let _ = q.clone().matmul(kt.clone());
        });
        time(&format!("s.v {keys}"), || {
            let _ = s.clone().matmul(k.clone());
        });
    }
    time("scale", || {
        let _ = q.clone() / 4.0;
    });
    time("add", || {
        let _ = x.clone() + x.clone();
    });
    let g = Tensor::<2>::ones([1, 688], &d);
    time("silu narrow", || {
        let _ = activation::silu(g.clone().narrow(1, 0, 344));
    });
    time("silu*up", || {
        let _ = activation::silu(g.clone().narrow(1, 0, 344)) * g.clone().narrow(1, 344, 344);
    });
    time("square", || {
        let _ = x.clone().square();
    });
    time("mean_dim", || {
        let _ = x.clone().mean_dim(1);
    });
    let m = x.clone().mean_dim(1);
    time("m+eps sqrt", || {
        let _ = (m.clone() + 1e-5f32).sqrt();
    });
    time("x/m", || {
        let _ = x.clone() / m.clone();
    });
    time("norm all", || {
        let ms = x.clone().square().mean_dim(1);
        let _ = x.clone() / (ms + 1e-5f32).sqrt() * x.clone();
    });
    let ones = Tensor::<1>::ones([128], &d);
    time("layer_norm", || {
        let _ = module::layer_norm(x.clone(), ones.clone(), None, 1e-5);
    });
    let logits: Vec<f32> = (0..1024).map(|i| ((i * 7919 % 1024) as f32).sin() * 8.0).collect();
    let s = inferscope_core::sampler::default_sampling();
    time("draw", || {
        let _ = inferscope_core::sampler::draw(&logits, &s, 0.3);
    });
    time("Distribution", || {
        let _ = inferscope_core::sampler::Distribution::new(&logits, &s);
    });
}
