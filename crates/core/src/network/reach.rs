//! The addresses that a rule may lead to. A public name that resolves to this machine or its neighbours is an attack,
//! independent of who controls the name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses that a connection may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressReach {
    /// Addresses of the public internet.
    Public,
    /// Public addresses and the private ranges of the local network; neither this machine nor its link.
    Private,
    /// This machine.
    Loopback,
    /// This one address, because the rule names it.
    Exactly(IpAddr),
}

impl AddressReach {
    /// Whether a connection to this address is allowed.
    #[must_use]
    pub fn permits(self, address: IpAddr) -> bool {
        let address = plain(address);
        match self {
            Self::Public => is_public(address),
            Self::Private => is_public(address) || is_private(address),
            Self::Loopback => address.is_loopback(),
            Self::Exactly(only) => plain(only) == address,
        }
    }
}

/// An IPv4 address inside an IPv6 address counts as IPv4: mapped, translated (RFC 6052, 8215), 6to4.
fn plain(address: IpAddr) -> IpAddr {
    let IpAddr::V6(six) = address else { return address };
    let [a, b, c, d, e, f, g, h] = six.segments();
    let four = |high: u16, low: u16| IpAddr::V4(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)));
    match (a, b, c, d, e, f) {
        (0, 0, 0, 0, 0, 0xffff) | (0x64, 0xff9b, 0, 0, 0, 0) => four(g, h),
        (0, 0, 0, 0, 0, 0) if g != 0 => four(g, h),
        (0x2002, ..) => four(b, c),
        _ => address,
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => is_public_four(four),
        IpAddr::V6(six) => is_public_six(six),
    }
}

/// All addresses except those that a registry reserves.
fn is_public_four(four: Ipv4Addr) -> bool {
    let [a, b, c, _] = four.octets();
    !matches!(
        (a, b, c),
        (0 | 10 | 127 | 224..=255, ..)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (192, 168, _)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    )
}

/// Global unicast without its reserved parts: Teredo and related ranges (2001::/23), documentation, local-use
/// translation.
fn is_public_six(six: Ipv6Addr) -> bool {
    let [a, b, ..] = six.segments();
    let global = (0x2000..=0x3fff).contains(&a);
    let aside = a == 0x2001 && (b < 0x200 || b == 0xdb8) || a == 0x3fff && b < 0x1000;
    global && !aside
}

fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => four.is_private() || matches!(four.octets(), [100, 64..=127, ..]),
        IpAddr::V6(six) => six.segments()[0] & 0xfe00 == 0xfc00,
    }
}
