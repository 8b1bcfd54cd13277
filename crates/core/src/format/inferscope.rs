//! The *Inferscope format* holds a small model in one file that checks itself: a prefix, a header in JSON with the shape
//! and a directory of tensors, the tensors, and a checksum. `docs/format.md` describes it byte by byte.

use crc::{CRC_32_ISO_HDLC, Crc, Digest};
use inferscope_trace::ModelInfo;
use serde::{Deserialize, Serialize};

use super::ElementType;
use super::elements::not_finite;
use crate::checkpoint::{Checkpoint, LayerPart, Part};
use crate::config::{ConfigError, DeclaredShape, n_weights};

/// What every such file begins with. Like PNG's, it shows when a file was taken for text on its way.
pub(crate) const MAGIC: [u8; 8] = *b"\x89INFER\r\n";

const VERSION: u32 = 1;

/// Magic, version (u32), length of the header (u32), length of the file (u64).
const PREFIX_BYTES: usize = 24;

/// CRC-32 as in PNG and zip.
static CHECKSUM: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);

const CHECKSUM_BYTES: usize = 4;

/// Why a file is not a model of this format that can be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    #[error("the file does not begin like an Inferscope model")]
    NoMagic,
    #[error("the model file is of version {found} of the format, and only version {VERSION} is known here")]
    Version { found: u32 },
    #[error("the model file is cut off: it has {found} bytes, and {expected} belong to it")]
    Truncated { expected: u64, found: usize },
    #[error("the model file is too long: it has {found} bytes, and only {expected} belong to it")]
    Oversized { expected: u64, found: usize },
    #[error("the model file is damaged: its bytes have the checksum {computed:08x}, and {stored:08x} is written in it")]
    Checksum { stored: u32, computed: u32 },
    #[error("the model file's header can not be read ({cause})")]
    Header { cause: String },
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("the model file lists {found} tensors, and a model of its shape has {expected}")]
    TensorCount { expected: u128, found: usize },
    #[error("the model file's entry for the tensor {name} is wrong: {field} is {found} and should be {expected}")]
    Tensor { name: String, field: &'static str, expected: String, found: String },
    #[error("the model file holds {found} bytes of weights, and its directory asks for {expected}")]
    Weights { expected: u128, found: usize },
    #[error("the model file is damaged: number {index} of the tensor {name} is {value}")]
    NotFinite { name: String, index: usize, value: String },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    shape: Shape,
    tensors: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shape {
    dim: i64,
    hidden_dim: i64,
    n_layers: i64,
    n_heads: i64,
    n_kv_heads: i64,
    vocab_size: i64,
    context: i64,
    tied_embedding: bool,
}

/// One tensor in the directory.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    /// `[rows, columns]`: `[out, in]` of a matrix, `[1, dim]` of a norm.
    shape: [usize; 2],
    element: ElementType,
    /// Where the tensor begins, counted from the end of the header.
    offset: u64,
    bytes: u64,
}

impl Checkpoint {
    /// Reads a whole file of the Inferscope format, whatever its element types.
    ///
    /// # Errors
    /// When the file is of another version or format, is cut, too long or damaged, or describes no model that can be.
    pub fn from_inferscope(file: &[u8]) -> Result<Self, FormatError> {
        let (header, data) = split(file)?;
        let header: Header =
            serde_json::from_slice(header).map_err(|error| FormatError::Header { cause: error.to_string() })?;
        let shape = header.shape.declared().check()?;
        check_directory(&shape, &header.tensors, data.len())?;
        let mut entries = header.tensors.iter();
        let mut rest = data;
        Self::read_parts(shape.clone(), &Part::all(&shape), |part| {
            let entry = entries.next().expect("an entry for each part");
            let (tensor, behind) = rest.split_at(entry.bytes as usize);
            rest = behind;
            let weights = entry.element.decode(tensor, part.size(&shape));
            match not_finite(&weights) {
                Some(index) => {
                    let value = weights[index].to_string();
                    Err(FormatError::NotFinite { name: entry.name.clone(), index, value })
                }
                None => Ok(weights),
            }
        })
    }

    /// The checkpoint as a file of the Inferscope format, its matrices stored as `element`. Norms are always f32, and so
    /// is a matrix with a weight that is too large for `element`.
    pub fn to_inferscope(&self, element: ElementType) -> Vec<u8> {
        let mut data = Vec::new();
        let mut tensors = Vec::new();
        for part in Part::all(&self.shape) {
            let weights = self.part(part);
            let shape = part.size(&self.shape);
            let element = if part.is_norm() || !element.holds(weights) { ElementType::F32 } else { element };
            let offset = data.len();
            element.encode(weights, shape[1], &mut data);
            let bytes = (data.len() - offset) as u64;
            tensors.push(Entry { name: name(part), shape, element, offset: offset as u64, bytes });
        }
        let header = Header { shape: Shape::of(&self.shape), tensors };
        let header = serde_json::to_vec(&header).expect("numbers and names are JSON");
        let length = PREFIX_BYTES + header.len() + data.len() + CHECKSUM_BYTES;

        let mut file = Vec::with_capacity(length);
        file.extend(MAGIC);
        file.extend(VERSION.to_le_bytes());
        file.extend(u32::try_from(header.len()).expect("a header below 4 GB").to_le_bytes());
        file.extend((length as u64).to_le_bytes());
        file.extend(header);
        file.extend(data);
        file.extend(checksum(&file).to_le_bytes());
        file
    }
}

impl Shape {
    fn of(shape: &ModelInfo) -> Self {
        Self {
            dim: shape.dim as i64,
            hidden_dim: shape.hidden_dim as i64,
            n_layers: shape.n_layers as i64,
            n_heads: shape.n_heads as i64,
            n_kv_heads: shape.n_kv_heads as i64,
            vocab_size: shape.vocab_size as i64,
            context: shape.context as i64,
            tied_embedding: shape.tied_embedding,
        }
    }

    fn declared(&self) -> DeclaredShape {
        DeclaredShape {
            dim: self.dim,
            hidden_dim: self.hidden_dim,
            n_layers: self.n_layers,
            n_heads: self.n_heads,
            n_kv_heads: self.n_kv_heads,
            vocab_size: self.vocab_size,
            context: self.context,
            tied_embedding: self.tied_embedding,
        }
    }
}

/// Chunk by chunk, because a browser has a quick version of a function that is called again, and none of a loop that it entered
/// once.
fn checksum(bytes: &[u8]) -> u32 {
    #[inline(never)]
    fn add(digest: &mut Digest<'_, u32>, chunk: &[u8]) {
        digest.update(chunk);
    }
    let mut digest = CHECKSUM.digest();
    bytes.chunks(4096).for_each(|chunk| add(&mut digest, chunk));
    digest.finalize()
}

/// Header and tensors of a file that is whole: what comes after this is the writer's mistake and not the way's.
fn split(file: &[u8]) -> Result<(&[u8], &[u8]), FormatError> {
    let begins_alike = MAGIC.starts_with(&file[..file.len().min(MAGIC.len())]);
    if !begins_alike {
        return Err(FormatError::NoMagic);
    }
    let found = file.len();
    let smallest = PREFIX_BYTES + CHECKSUM_BYTES;
    let Some((prefix, _)) = file.split_first_chunk::<PREFIX_BYTES>() else {
        return Err(FormatError::Truncated { expected: smallest as u64, found });
    };
    let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| prefix[at + i]));
    let version = u32_at(8);
    if version != VERSION {
        return Err(FormatError::Version { found: version });
    }
    let header_bytes = u32_at(12) as usize;
    let expected = u64::from_le_bytes(std::array::from_fn(|i| prefix[16 + i]));
    if (found as u64) < expected {
        return Err(FormatError::Truncated { expected, found });
    }
    if found as u64 > expected {
        return Err(FormatError::Oversized { expected, found });
    }
    let Some((checked, stored)) = file.split_last_chunk::<CHECKSUM_BYTES>().filter(|_| found >= smallest) else {
        return Err(FormatError::Truncated { expected: smallest as u64, found });
    };
    let (stored, computed) = (u32::from_le_bytes(*stored), checksum(checked));
    if stored != computed {
        return Err(FormatError::Checksum { stored, computed });
    }
    let body = &checked[PREFIX_BYTES..];
    body.split_at_checked(header_bytes).ok_or_else(|| {
        let cause = format!("it should have {header_bytes} bytes, and {} follow", body.len());
        FormatError::Header { cause }
    })
}

/// Whether the directory lists exactly the tensors that a model of that shape has, one after another.
fn check_directory(shape: &ModelInfo, tensors: &[Entry], data_bytes: usize) -> Result<(), FormatError> {
    // Before anything is listed or allocated by it, the number of layers must be one that the file speaks of.
    let expected = 2 + 9 * shape.n_layers as u128 + u128::from(!shape.tied_embedding);
    if tensors.len() as u128 != expected {
        return Err(FormatError::TensorCount { expected, found: tensors.len() });
    }
    // No element type takes less than a byte for a weight.
    if n_weights(shape) > data_bytes as u128 {
        return Err(FormatError::Weights { expected: n_weights(shape), found: data_bytes });
    }
    let mut offset = 0;
    for (part, entry) in Part::all(shape).into_iter().zip(tensors) {
        let size = part.size(shape);
        let bytes = entry.element.bytes(size);
        let fields = [
            ("the name", entry.name.clone(), name(part)),
            ("the shape", format!("{:?}", entry.shape), format!("{size:?}")),
            ("the offset", entry.offset.to_string(), offset.to_string()),
            ("the number of bytes", entry.bytes.to_string(), bytes.to_string()),
        ];
        if let Some((field, found, expected)) = fields.into_iter().find(|(_, found, expected)| found != expected) {
            return Err(FormatError::Tensor { name: entry.name.clone(), field, expected, found });
        }
        offset += bytes;
    }
    match offset == data_bytes as u128 {
        true => Ok(()),
        false => Err(FormatError::Weights { expected: offset, found: data_bytes }),
    }
}

/// A tensor's name in the directory.
fn name(part: Part) -> String {
    let (layer, part) = match part {
        Part::Embedding => return "embedding".into(),
        Part::FinalNorm => return "final_norm".into(),
        Part::Output => return "output".into(),
        Part::Layer(layer, part) => (layer, part),
    };
    let part = match part {
        LayerPart::AttentionNorm => "attention_norm",
        LayerPart::Query => "query",
        LayerPart::Key => "key",
        LayerPart::Value => "value",
        LayerPart::AttentionOutput => "attention_output",
        LayerPart::FeedForwardNorm => "feed_forward_norm",
        LayerPart::Gate => "gate",
        LayerPart::Down => "down",
        LayerPart::Up => "up",
    };
    format!("layers.{layer}.{part}")
}
