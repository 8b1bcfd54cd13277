//! The *choice* of an engine: which one serves the next run, and the sentence that tells the reader why.

use inferscope_trace::BackendKind;

/// What the reader or the page's author asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Request {
    #[default]
    Auto,
    Webgpu,
    Cpu,
}

impl Request {
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self::Auto),
            "webgpu" => Some(Self::Webgpu),
            "cpu" => Some(Self::Cpu),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Webgpu => "webgpu",
            Self::Cpu => "cpu",
        }
    }
}

/// What the browser says about WebGPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Probe {
    /// Not asked yet, or not answered yet.
    #[default]
    Pending,
    /// The browser has no WebGPU.
    Unsupported,
    /// The browser has WebGPU and no adapter to run it on.
    NoAdapter,
    /// An adapter that emulates a GPU on the processor.
    Software(String),
    Hardware(String),
}

/// How far an engine is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EngineStatus {
    #[default]
    Off,
    Starting,
    /// Loaded and warm; for WebGPU with the adapter's name.
    Ready {
        adapter: Option<String>,
    },
    /// Could not start, or was lost.
    Failed(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// None: nothing can serve yet (or at all; then `reason` says why).
    pub kind: Option<BackendKind>,
    pub reason: String,
    /// Engines that should be started now.
    pub start: Vec<BackendKind>,
    /// Nothing will ever serve unless the reader tries again.
    pub failed: bool,
}

/// Chooses an engine. On `Auto` the CPU engine serves until WebGPU is warm on a hardware adapter. Asked for by name,
/// WebGPU runs on a software adapter too; where it cannot run at all, the CPU serves and the reason says so.
pub fn choose(request: Request, probe: &Probe, cpu: &EngineStatus, webgpu: &EngineStatus) -> Choice {
    let serve_cpu = |reason: String| {
        let kind = matches!(cpu, EngineStatus::Ready { .. }).then_some(BackendKind::Cpu);
        let start = if *cpu == EngineStatus::Off { vec![BackendKind::Cpu] } else { vec![] };
        match cpu {
            EngineStatus::Failed(message) => Choice { kind, reason: message.clone(), start, failed: true },
            _ => Choice { kind, reason, start, failed: false },
        }
    };
    let serve_webgpu =
        |reason: String| Choice { kind: Some(BackendKind::Webgpu), reason, start: vec![], failed: false };
    match request {
        Request::Cpu => serve_cpu("chosen by name".into()),
        Request::Webgpu => match webgpu {
            EngineStatus::Ready { .. } => serve_webgpu(match probe {
                Probe::Software(name) => {
                    format!("chosen by name; {name} emulates a GPU on the processor, so it is slow here")
                }
                _ => "chosen by name".into(),
            }),
            EngineStatus::Failed(message) => serve_cpu(format!("WebGPU was chosen, but {}", lower_first(message))),
            EngineStatus::Off | EngineStatus::Starting => match probe {
                Probe::Unsupported => serve_cpu("WebGPU was chosen, but this browser does not have it".into()),
                Probe::NoAdapter => serve_cpu("WebGPU was chosen, but no graphics adapter answers".into()),
                _ => Choice {
                    kind: None,
                    reason: "WebGPU was chosen and is getting ready".into(),
                    start: if *webgpu == EngineStatus::Off && *probe != Probe::Pending {
                        vec![BackendKind::Webgpu]
                    } else {
                        vec![]
                    },
                    failed: false,
                },
            },
        },
        Request::Auto => match (probe, webgpu) {
            (Probe::Hardware(name), EngineStatus::Ready { .. }) => serve_webgpu(format!("{name} answers")),
            (Probe::Hardware(name), EngineStatus::Off | EngineStatus::Starting) => {
                let mut choice = serve_cpu(format!("it serves while WebGPU on {name} gets ready"));
                // The CPU engine comes first: its download must not share the line with one ten times its size.
                if choice.kind.is_some() && *webgpu == EngineStatus::Off {
                    choice.start.push(BackendKind::Webgpu);
                }
                choice
            }
            (Probe::Hardware(_), EngineStatus::Failed(message)) => {
                serve_cpu(format!("WebGPU is out: {}", lower_first(message)))
            }
            (Probe::Software(name), _) => {
                serve_cpu(format!("the only WebGPU adapter, {name}, is software and would be slower"))
            }
            (Probe::Unsupported, _) => serve_cpu("this browser has no WebGPU".into()),
            (Probe::NoAdapter, _) => serve_cpu("no graphics adapter answers to WebGPU".into()),
            (Probe::Pending, _) => serve_cpu("looking for WebGPU".into()),
        },
    }
}

/// A sentence as a clause within another.
fn lower_first(sentence: &str) -> String {
    let mut chars = sentence.chars();
    match (chars.next(), chars.next()) {
        // Not an abbreviation or a name in capitals ("WebGPU", "GPU").
        (Some(first), Some(second)) if second.is_lowercase() && !sentence.starts_with("Web") => {
            std::iter::once(first.to_ascii_lowercase()).chain(sentence.chars().skip(1)).collect()
        }
        _ => sentence.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFF: EngineStatus = EngineStatus::Off;

    fn ready() -> EngineStatus {
        EngineStatus::Ready { adapter: None }
    }

    fn failed() -> EngineStatus {
        EngineStatus::Failed("The device was lost.".into())
    }

    fn hardware() -> Probe {
        Probe::Hardware("a fast card".into())
    }

    #[test]
    fn auto_serves_on_the_cpu_until_webgpu_is_warm() {
        let choice = choose(Request::Auto, &hardware(), &OFF, &OFF);
        assert_eq!((choice.kind, choice.start), (None, vec![BackendKind::Cpu]));
        let choice = choose(Request::Auto, &hardware(), &ready(), &OFF);
        assert_eq!((choice.kind, choice.start), (Some(BackendKind::Cpu), vec![BackendKind::Webgpu]));
        let choice = choose(Request::Auto, &hardware(), &ready(), &EngineStatus::Starting);
        assert_eq!((choice.kind, choice.start), (Some(BackendKind::Cpu), vec![]));
        assert_eq!(choose(Request::Auto, &hardware(), &ready(), &ready()).kind, Some(BackendKind::Webgpu));
        assert_eq!(choose(Request::Auto, &hardware(), &ready(), &failed()).kind, Some(BackendKind::Cpu));
    }

    #[test]
    fn auto_never_takes_a_software_adapter_and_says_why() {
        for probe in [Probe::Software("SoftPipe".into()), Probe::NoAdapter, Probe::Unsupported, Probe::Pending] {
            let choice = choose(Request::Auto, &probe, &ready(), &OFF);
            assert_eq!((choice.kind, choice.start.len()), (Some(BackendKind::Cpu), 0), "{probe:?}");
            assert!(!choice.reason.is_empty());
        }
    }

    #[test]
    fn webgpu_by_name_runs_on_software_and_falls_back_where_there_is_nothing() {
        let software = Probe::Software("SoftPipe".into());
        assert_eq!(choose(Request::Webgpu, &software, &OFF, &OFF).start, [BackendKind::Webgpu]);
        assert_eq!(choose(Request::Webgpu, &software, &OFF, &ready()).kind, Some(BackendKind::Webgpu));
        assert_eq!(choose(Request::Webgpu, &Probe::NoAdapter, &ready(), &OFF).kind, Some(BackendKind::Cpu));
        let lost = choose(Request::Webgpu, &software, &OFF, &failed());
        assert_eq!((lost.start, lost.failed), (vec![BackendKind::Cpu], false));
        assert_eq!(lost.reason, "WebGPU was chosen, but the device was lost.");
    }

    #[test]
    fn without_a_cpu_engine_the_choice_fails_with_its_sentence() {
        let choice = choose(Request::Cpu, &Probe::Pending, &failed(), &OFF);
        assert!(choice.failed && choice.kind.is_none());
        assert_eq!(choice.reason, "The device was lost.");
    }
}
