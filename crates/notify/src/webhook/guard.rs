//! Where webhooks may go (rule N10): to public addresses, unless the operator allows others.
//!
//! A caller chooses the URL, so it must not lead into the network that Docket stands in. The check is made on the addresses that
//! a name resolves to, and the connection goes to those same addresses: a name that means something else a moment later gains
//! nothing. A name with even one address that is not public is refused.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

/// The most addresses of one name that are looked at and tried.
const ADDRESSES_MAX: usize = 16;

/// Where addresses come from.
pub trait Names: fmt::Debug + Send + Sync + 'static {
    /// The addresses of a host.
    fn resolve(&self, host: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The system's own way to resolve a name.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemNames;

impl Names for SystemNames {
    fn resolve(&self, host: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let host = host.to_owned();
        async move {
            let addresses = tokio::net::lookup_host((host, 0)).await?;
            Ok(addresses.map(|address| address.ip()).collect())
        }
        .boxed()
    }
}

/// Why a webhook may not go there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Forbidden {
    #[error("the address {0} is {1}, and webhooks go to public addresses only, unless allow_private is set")]
    Address(IpAddr, &'static str),
    #[error("plain http is not allowed, unless allow_private is set: use https")]
    Scheme,
    #[error("port {0} is not allowed, unless allow_private is set: use 443, 80, or one from 1024 on")]
    Port(u16),
}

/// Resolves names, and lets pass what is allowed.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    names: Arc<dyn Names>,
    allow_private: bool,
}

impl Guard {
    pub(super) fn new(names: Arc<dyn Names>, allow_private: bool) -> Self {
        Self { names, allow_private }
    }

    /// What can be told from the URL alone. An address in it never comes to [`Guard::resolve`].
    pub(super) fn check_url(&self, url: &Url) -> Result<(), Forbidden> {
        if self.allow_private {
            return Ok(());
        }
        if url.scheme() != "https" {
            return Err(Forbidden::Scheme);
        }
        // Below are mail, telnet and the like, which can be made to do things by what looks like a request.
        if let Some(port @ (0..=79 | 81..=442 | 444..=1023)) = url.port_or_known_default() {
            return Err(Forbidden::Port(port));
        }
        match url.host() {
            Some(Host::Ipv4(address)) => check_address(address.into()),
            Some(Host::Ipv6(address)) => check_address(address.into()),
            _ => Ok(()),
        }
    }
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.clone();
        Box::pin(async move {
            let mut addresses = guard.names.resolve(name.as_str()).await?;
            addresses.truncate(ADDRESSES_MAX);
            if !guard.allow_private {
                addresses.iter().copied().try_for_each(check_address)?;
            }
            let addresses = addresses.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}

fn check_address(address: IpAddr) -> Result<(), Forbidden> {
    let reserved = match address {
        IpAddr::V4(address) => reserved_v4(address),
        IpAddr::V6(address) => reserved_v6(address),
    };
    reserved.map_or(Ok(()), |what| Err(Forbidden::Address(address, what)))
}

/// What is not public of IPv4, by IANA's registry of special-purpose addresses.
fn reserved_v4(address: Ipv4Addr) -> Option<&'static str> {
    const RESERVED: [([u8; 4], u32, &str); 15] = [
        ([0, 0, 0, 0], 8, "of this network"),
        ([10, 0, 0, 0], 8, "private"),
        ([100, 64, 0, 0], 10, "shared by a carrier"),
        ([127, 0, 0, 0], 8, "this machine"),
        ([169, 254, 0, 0], 16, "link-local"),
        ([172, 16, 0, 0], 12, "private"),
        ([192, 0, 0, 0], 24, "reserved for protocols"),
        ([192, 0, 2, 0], 24, "for documentation"),
        ([192, 88, 99, 0], 24, "of 6to4"),
        ([192, 168, 0, 0], 16, "private"),
        ([198, 18, 0, 0], 15, "for benchmarks"),
        ([198, 51, 100, 0], 24, "for documentation"),
        ([203, 0, 113, 0], 24, "for documentation"),
        ([224, 0, 0, 0], 4, "multicast"),
        ([240, 0, 0, 0], 4, "reserved"),
    ];
    let bits = address.to_bits();
    RESERVED
        .iter()
        .find(|(start, length, _)| (bits ^ u32::from_be_bytes(*start)) >> (32 - length) == 0)
        .map(|(_, _, what)| *what)
}

/// What is not public of IPv6. Only 2000::/3 is given out to the public: mapped IPv4, NAT64, ULA, link-local, loopback and
/// multicast all lie outside of it. Within it, these are not public, or lead to some IPv4 address.
fn reserved_v6(address: Ipv6Addr) -> Option<&'static str> {
    const RESERVED: [([u16; 2], u32, &str); 4] = [
        ([0x2001, 0x0000], 23, "reserved for protocols, or Teredo"),
        ([0x2001, 0x0db8], 32, "for documentation"),
        ([0x2002, 0x0000], 16, "of 6to4"),
        ([0x3fff, 0x0000], 20, "for documentation"),
    ];
    let bits = u32::try_from(address.to_bits() >> 96).unwrap_or(0);
    if bits >> 29 != 1 {
        return Some("not public");
    }
    RESERVED
        .iter()
        .find(|([high, low], length, _)| {
            let start = (u32::from(*high) << 16) | u32::from(*low);
            (bits ^ start) >> (32 - length) == 0
        })
        .map(|(_, _, what)| *what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_pass() {
        for public in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.1",
            "198.17.255.255",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:200::1",
            "2a00::1",
        ] {
            assert_eq!(check_address(public.parse().unwrap()), Ok(()), "{public}");
        }
        for private in [
            "0.0.0.0",
            "0.1.2.3",
            "10.1.2.3",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(check_address(private.parse().unwrap()).is_err(), "{private}");
        }
    }

    #[test]
    fn scheme_port_and_address_of_a_url_are_checked() {
        let strict = Guard::new(Arc::new(SystemNames), false);
        let lenient = Guard::new(Arc::new(SystemNames), true);
        for (url, passes) in [
            ("https://receiver.example/hook", true),
            ("https://receiver.example:8443/hook", true),
            ("https://1.1.1.1/hook", true),
            ("http://receiver.example/hook", false),
            ("https://receiver.example:25/hook", false),
            ("https://169.254.169.254/latest/meta-data", false),
            ("https://2852039166/", false),
            ("https://0x7f.1/", false),
            ("https://[::1]/", false),
            ("https://[::ffff:10.0.0.1]/", false),
        ] {
            let url = Url::parse(url).unwrap();
            assert_eq!(strict.check_url(&url).is_ok(), passes, "{url}");
            assert!(lenient.check_url(&url).is_ok(), "{url}");
        }
    }
}
