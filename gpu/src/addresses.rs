//! How wide the indices of a kernel have to be.

use crate::device_error::DeviceError;
use cubecl::prelude::*;

/// Units that cubes folded over two axes have more than there is work: fewer than a row of cubes.
const IDLE_UNITS: usize = 1 << 24;

/// The indices of a kernel whose longest array has `longest` elements and that has work for so many `units`. Only where 32 bits do
/// not suffice are they 64 bits wide, which takes more registers and time.
///
/// # Errors
/// [`DeviceError::Unsupported`] if the device has not as wide ones.
pub(crate) fn address_type<R: Runtime>(
    client: &ComputeClient<R>,
    longest: usize,
    units: usize,
) -> Result<AddressType, DeviceError> {
    let addresses = AddressType::from_len(longest.max(units.saturating_add(IDLE_UNITS)));
    match client.properties().supports_address(addresses) {
        true => Ok(addresses),
        false => Err(DeviceError::Unsupported { what: format!("cannot address {longest} elements of an array") }),
    }
}
