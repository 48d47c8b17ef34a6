//! How wide the indices of a kernel have to be.

use crate::kernels::error::KernelError;
use crate::kernels::grid::IDLE_THREADS;
use cubecl::prelude::*;

/// The indices of a kernel whose longest array has `longest` elements and that has work for so many `units`. Only where 32 bits do
/// not suffice are they 64 bits wide, which takes more registers and time.
///
/// # Errors
/// [`KernelError::Unsupported`] if the device has not as wide ones.
pub(crate) fn address_type<R: Runtime>(
    client: &ComputeClient<R>,
    longest: usize,
    units: usize,
) -> Result<AddressType, KernelError> {
    let addresses = AddressType::from_len(longest.max(units.saturating_add(IDLE_THREADS)));
    match client.properties().supports_address(addresses) {
        true => Ok(addresses),
        false => Err(KernelError::Unsupported { what: format!("cannot address {longest} elements of an array") }),
    }
}
