//! The width of a kernel's indices.

use crate::kernels::error::KernelError;
use crate::kernels::grid::IDLE_THREADS;
use cubecl::prelude::*;

/// Returns the index type of a kernel whose longest array has `longest` elements, and that has `units` units of work.
/// Indices are 64 bits wide only if 32 bits do not suffice, because they take more registers and time.
///
/// # Errors
/// Returns [`KernelError::Unsupported`] if the device lacks indices of that width.
pub(crate) fn address_type<R: Runtime>(
    client: &ComputeClient<R>,
    longest: usize,
    units: usize,
) -> Result<AddressType, KernelError> {
    let addresses = AddressType::from_len(longest.max(units.saturating_add(IDLE_THREADS)));
    if client.properties().supports_address(addresses) {
        Ok(addresses)
    } else {
        Err(KernelError::Unsupported { what: format!("cannot address {longest} elements of an array") })
    }
}
