//! The header of a safetensors file, apart from the tensors: these may be larger than memory.

use super::ModelFileError;
use safetensors::tensor::{Metadata, TensorInfo, TensorView, serialize};
use safetensors::{Dtype, SafeTensorError};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The bytes that say how long the header is.
const LENGTH_BYTES: u64 = 8;
/// A header that claims to be longer is refused before it is read.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// An open safetensors file whose header was read and checked: all tensors are inside of the file, and fill it.
pub(super) struct FileHeader<'a> {
    pub(super) path: &'a Path,
    pub(super) file: File,
    header: Metadata,
    /// The offset of the first tensor.
    data_start: u64,
}

impl<'a> FileHeader<'a> {
    /// # Errors
    /// [`ModelFileError::Read`] if the file cannot be read, [`ModelFileError::Format`] if it is damaged.
    pub(super) fn read(path: &'a Path) -> Result<Self, ModelFileError> {
        let read_error = |source| ModelFileError::Read { path: path.to_owned(), source };
        let format_error = |source| ModelFileError::Format { path: path.to_owned(), source };
        let file = File::open(path).map_err(read_error)?;
        let held = file.metadata().map_err(read_error)?.len();
        if held < LENGTH_BYTES {
            return Err(format_error(SafeTensorError::HeaderTooSmall));
        }
        let mut length = [0; LENGTH_BYTES as usize];
        file.read_exact_at(&mut length, 0).map_err(read_error)?;
        let length = u64::from_le_bytes(length);
        if length > MAX_HEADER_BYTES {
            return Err(format_error(SafeTensorError::HeaderTooLarge));
        }
        let data_start = LENGTH_BYTES + length;
        if data_start > held {
            return Err(format_error(SafeTensorError::InvalidHeaderLength));
        }
        let mut text = vec![0; length as usize];
        file.read_exact_at(&mut text, LENGTH_BYTES).map_err(read_error)?;
        let header: Metadata = serde_json::from_slice(&text)
            .map_err(|source| format_error(SafeTensorError::InvalidHeaderDeserialization(source)))?;
        if header.data_len() as u64 != held - data_start {
            return Err(format_error(SafeTensorError::MetadataIncompleteBuffer));
        }
        Ok(Self { path, file, header, data_start })
    }

    /// The metadata, empty where there is none.
    pub(super) fn metadata(&self) -> HashMap<String, String> {
        self.header.metadata().clone().unwrap_or_default()
    }

    /// The names of the tensors, in the order of their data.
    pub(super) fn names(&self) -> Vec<String> {
        self.header.offset_keys()
    }

    pub(super) fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.header.info(name)
    }

    /// Reads bytes of a tensor, from `offset` on.
    ///
    /// # Errors
    /// [`ModelFileError::Read`].
    pub(super) fn read_at(&self, info: &TensorInfo, offset: usize, bytes: &mut [u8]) -> Result<(), ModelFileError> {
        let start = self.data_start + info.data_offsets.0 as u64 + offset as u64;
        self.file
            .read_exact_at(bytes, start)
            .map_err(|source| ModelFileError::Read { path: self.path.to_owned(), source })
    }

    /// A safetensors file with some of the tensors and other metadata.
    ///
    /// # Errors
    /// [`ModelFileError::Read`], or [`ModelFileError::Format`] for tensors that do not fit a header.
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
        let format_error = |source| ModelFileError::Format { path: self.path.to_owned(), source };
        let views = tensors.iter().map(|(name, info, bytes)| {
            let view = TensorView::new(info.dtype, info.shape.clone(), bytes)?;
            Ok((name, view))
        });
        let views = views.collect::<Result<Vec<_>, SafeTensorError>>().map_err(format_error)?;
        serialize(views, Some(metadata)).map_err(format_error)
    }
}

/// A tensor whose data follows the header.
pub(super) struct Announced {
    pub(super) name: String,
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
}

/// The beginning of a file, up to its tensors, whose data has to follow in this order without gaps.
///
/// # Errors
/// Sizes that overflow.
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
    let mut text = serde_json::to_vec(&Metadata::new(Some(metadata), infos)?)?;
    // The tensors begin at a multiple of 8 bytes.
    text.resize(text.len().next_multiple_of(LENGTH_BYTES as usize), b' ');
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text);
    Ok(bytes)
}
