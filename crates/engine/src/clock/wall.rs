//! Waits for a moment of the wall clock with one kernel timer. The timer uses the wall clock itself: it fires on resume
//! if the machine was suspended past the moment, and it is cancelled when the clock is set.

use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::OwnedFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Returns at that moment or when the clock was set; the caller reads the clock.
pub(super) async fn wait_until(at_ms: i64) -> io::Result<()> {
    let timer = armed(at_ms)?;
    #[expect(deprecated, reason = "its successor is `unsafe` for handles that may change; an `OwnedFd` does not")]
    let timer = AsyncFd::with_interest(timer, Interest::READABLE)?;
    let look = |timer: &OwnedFd| match rustix::io::read(timer, &mut [0_u8; 8]) {
        // The clock was set: the caller has to read it again.
        Ok(_) | Err(Errno::CANCELED) => Ok(()),
        Err(error) => Err(io::Error::from(error)),
    };
    timer.async_io(Interest::READABLE, look).await
}

fn armed(at_ms: i64) -> io::Result<OwnedFd> {
    let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
    let none = Timespec { tv_sec: 0, tv_nsec: 0 };
    // Zero would disarm the timer.
    let at = Timespec { tv_sec: at_ms.div_euclid(1000), tv_nsec: (at_ms.rem_euclid(1000) * 1_000_000).max(1) };
    let when = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
    // If the clock was set between two calls, this call reports it, but the timer is armed anyway.
    match timerfd_settime(&timer, when, &Itimerspec { it_interval: none, it_value: at }) {
        Ok(_) | Err(Errno::CANCELED) => Ok(timer),
        Err(error) => Err(error.into()),
    }
}
