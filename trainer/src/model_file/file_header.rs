//! The header of a safetensors file, which is read without the tensors, because these may be larger than memory.

use super::ModelFileError;
use safetensors::tensor::{Metadata, TensorInfo, TensorView, serialize};
use safetensors::{Dtype, SafeTensorError};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

/// The number of bytes of the length field before the header.
const LENGTH_BYTES: u64 = 8;
/// The number of bytes that are hashed at a time.
const PIECE_BYTES: usize = 1 << 20;
/// The maximum length of a header. A longer one is rejected before memory is allocated for it.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// An open safetensors file whose header was read and checked: the tensors lie within the file and fill it.
pub(super) struct FileHeader {
    pub(super) path: PathBuf,
    pub(super) file: File,
    header: Metadata,
    /// The offset of the first tensor.
    data_start: u64,
}

impl FileHeader {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// [`ModelFileError::Read`] if the file cannot be read, [`ModelFileError::Format`] if it is damaged.
    pub(super) fn read(path: &Path) -> Result<Self, ModelFileError> {
        let damaged = ModelFileError::format(path);
        let file = File::open(path).map_err(ModelFileError::read(path))?;
        let held = file.metadata().map_err(ModelFileError::read(path))?.len();
        if held < LENGTH_BYTES {
            return Err(damaged(SafeTensorError::HeaderTooSmall));
        }
        let mut length = [0; LENGTH_BYTES as usize];
        file.read_exact_at(&mut length, 0).map_err(ModelFileError::read(path))?;
        let length = u64::from_le_bytes(length);
        if length > MAX_HEADER_BYTES {
            return Err(damaged(SafeTensorError::HeaderTooLarge));
        }
        let data_start = LENGTH_BYTES + length;
        if data_start > held {
            return Err(damaged(SafeTensorError::InvalidHeaderLength));
        }
        let mut text = vec![0; length as usize];
        file.read_exact_at(&mut text, LENGTH_BYTES).map_err(ModelFileError::read(path))?;
        let header: Metadata = serde_json::from_slice(&text)
            .map_err(|source| damaged(SafeTensorError::InvalidHeaderDeserialization(source)))?;
        if header.data_len() as u64 != held - data_start {
            return Err(damaged(SafeTensorError::MetadataIncompleteBuffer));
        }
        Ok(Self { path: path.to_owned(), file, header, data_start })
    }

    /// Returns the metadata, which is empty if the file has none.
    pub(super) fn metadata(&self) -> HashMap<String, String> {
        self.header.metadata().clone().unwrap_or_default()
    }

    /// Returns the names of the tensors in the order of their data.
    pub(super) fn names(&self) -> Vec<String> {
        self.header.offset_keys()
    }

    pub(super) fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.header.info(name)
    }

    /// Returns a tensor of this type and shape.
    ///
    /// # Errors
    /// [`ModelFileError::Content`] if there is none, or if it has another type or shape.
    pub(super) fn expect(&self, name: &str, dtype: Dtype, shape: &[usize]) -> Result<TensorInfo, ModelFileError> {
        match self.tensor(name) {
            None => Err(ModelFileError::missing_tensor(&self.path, name)),
            Some(info) if info.dtype != dtype || info.shape != shape => {
                let found = info.dtype;
                let found_shape = &info.shape;
                let what = format!(
                    "tensor {name} is {found:?} of shape {found_shape:?}, expected {dtype:?} of shape {shape:?}"
                );
                Err(ModelFileError::content(&self.path, what))
            }
            Some(info) => Ok(info.clone()),
        }
    }

    /// Reads some entries of `N` bytes each of a tensor with one dimension.
    ///
    /// # Errors
    /// [`ModelFileError::Read`] if the file cannot be read.
    pub(super) fn words<const N: usize>(
        &self,
        info: &TensorInfo,
        range: &Range<usize>,
    ) -> Result<Vec<[u8; N]>, ModelFileError> {
        let mut words = vec![[0; N]; range.len()];
        self.read_at(info, range.start * N, words.as_flattened_mut())?;
        Ok(words)
    }

    /// Reads `bytes.len()` bytes of a tensor, from `offset` on.
    ///
    /// # Errors
    /// [`ModelFileError::Read`] if the file cannot be read.
    pub(super) fn read_at(&self, info: &TensorInfo, offset: usize, bytes: &mut [u8]) -> Result<(), ModelFileError> {
        let start = self.data_start + info.data_offsets.0 as u64 + offset as u64;
        self.file.read_exact_at(bytes, start).map_err(ModelFileError::read(&self.path))
    }

    /// Compares the bytes of the file with their checksum.
    ///
    /// # Errors
    /// [`ModelFileError::Read`] if the file cannot be read, [`ModelFileError::Content`] for another checksum.
    pub(super) fn check(&self, expected: &str) -> Result<(), ModelFileError> {
        let num_bytes = self.data_start + self.header.data_len() as u64;
        let mut piece = vec![0; PIECE_BYTES.min(num_bytes as usize)];
        let mut hash = Xxh3::new();
        let mut start = 0;
        while start < num_bytes {
            let count = (num_bytes - start).min(piece.len() as u64) as usize;
            let read = self.file.read_exact_at(&mut piece[..count], start);
            read.map_err(ModelFileError::read(&self.path))?;
            hash.update(&piece[..count]);
            start += count as u64;
        }
        let found = checksum_text(&hash);
        if found == expected {
            return Ok(());
        }
        let what = format!(
            "its checksum is {found}, but the model file lists {expected}: the file was changed, copy it again"
        );
        Err(ModelFileError::content(&self.path, what))
    }

    /// Makes the bytes of a safetensors file with the tensors whose names `wanted` accepts, and with other metadata.
    ///
    /// # Errors
    /// [`ModelFileError::Read`] if the file cannot be read, [`ModelFileError::Format`] if the result cannot be
    /// serialised.
    pub(super) fn extract(
        &self,
        wanted: impl Fn(&str) -> bool,
        metadata: HashMap<String, String>,
    ) -> Result<Vec<u8>, ModelFileError> {
        let mut tensors = Vec::new();
        for name in self.names().into_iter().filter(|name| wanted(name)) {
            let Some(info) = self.tensor(&name) else { continue };
            let mut bytes = vec![0; info.data_offsets.1 - info.data_offsets.0];
            self.read_at(info, 0, &mut bytes)?;
            tensors.push((name, info.clone(), bytes));
        }
        let views = tensors.iter().map(|(name, info, bytes)| {
            let view = TensorView::new(info.dtype, info.shape.clone(), bytes)?;
            Ok((name, view))
        });
        let views = views.collect::<Result<Vec<_>, SafeTensorError>>().map_err(ModelFileError::format(&self.path))?;
        serialize(views, Some(metadata)).map_err(ModelFileError::format(&self.path))
    }
}

/// Returns a checksum as the index of a model lists it.
pub(super) fn checksum_text(hash: &Xxh3) -> String {
    format!("{:016x}", hash.digest())
}

/// A tensor that the header lists before its data is written.
pub(super) struct Announced {
    pub(super) name: String,
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
}

/// Makes the header of a file. The data of the tensors must follow in this order without gaps.
///
/// # Errors
/// [`SafeTensorError`] if a size overflows or the header cannot be serialised.
pub(super) fn header_bytes(
    metadata: HashMap<String, String>,
    tensors: Vec<Announced>,
) -> Result<Vec<u8>, SafeTensorError> {
    let mut start = 0_usize;
    let mut infos = Vec::with_capacity(tensors.len());
    for Announced { name, dtype, shape } in tensors {
        let values = shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size));
        let bytes = values.and_then(|values| values.checked_mul(dtype.bitsize() / 8));
        let end = bytes.and_then(|bytes| start.checked_add(bytes)).ok_or(SafeTensorError::ValidationOverflow)?;
        infos.push((name, TensorInfo { dtype, shape, data_offsets: (start, end) }));
        start = end;
    }
    let mut text = in_order(&serde_json::to_vec(&Metadata::new(Some(metadata), infos)?)?)?;
    // Pads the header, so that the tensors begin at a multiple of 8 bytes.
    text.resize(text.len().next_multiple_of(LENGTH_BYTES as usize), b' ');
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text);
    Ok(bytes)
}

/// Puts the entries of a file's header into alphabetical order, so that equal models have equal bytes: the library writes
/// the metadata in a random order.
///
/// # Errors
/// [`SafeTensorError`] if the bytes are no safetensors file.
pub(super) fn with_ordered_header(mut bytes: Vec<u8>) -> Result<Vec<u8>, SafeTensorError> {
    let (length, rest) = bytes.split_first_chunk_mut().ok_or(SafeTensorError::HeaderTooSmall)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| SafeTensorError::HeaderTooLarge)?;
    let header = rest.get_mut(..length).ok_or(SafeTensorError::InvalidHeaderLength)?;
    let mut text = in_order(header)?;
    // Another order has the same length, up to the padding.
    text.resize(length, b' ');
    header.copy_from_slice(&text);
    Ok(bytes)
}

/// Returns a JSON object with its entries in alphabetical order.
fn in_order(text: &[u8]) -> Result<Vec<u8>, SafeTensorError> {
    let object: BTreeMap<String, Value> = serde_json::from_slice(text)?;
    Ok(serde_json::to_vec(&object)?)
}
