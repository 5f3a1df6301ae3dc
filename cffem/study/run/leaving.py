# SPDX-License-Identifier: MIT
"""Leaving although a library is busy: signal handlers that need no Python.

Python runs its handlers between two of its own instructions, and while MUMPS factorises or hypre
sets up there are none, for minutes; threads do not run either, because these calls keep Python's
lock. So a few lines of C, compiled once like the forms are, stand in front of Python's handlers:
they let Python know and set an alarm, and when that rings before the run has ended by itself the
process leaves with the code it was given. What was finished is on the disk by then.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import logging
import os
import shlex
import signal
import subprocess
import sysconfig
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from cffem._compat import cache_folder

log = logging.getLogger("cffem.study")

SOURCE = r"""
#include <signal.h>
#include <string.h>
#include <unistd.h>

static struct sigaction before[65], alarm_before;
static volatile sig_atomic_t asked;
static unsigned patience;
static int code, watched;
static char words[256];

static void leave(int number)
{
  (void)!write(2, words, strlen(words));
  _exit(code);
}

static void take(int number, siginfo_t *info, void *context)
{
  if (asked)
    leave(number);
  asked = 1;
  alarm(patience);
  if (before[number].sa_flags & SA_SIGINFO)
    before[number].sa_sigaction(number, info, context);
  else if (before[number].sa_handler != SIG_DFL && before[number].sa_handler != SIG_IGN)
    before[number].sa_handler(number);
}

void cffem_settings(unsigned seconds, int status, const char *text)
{
  asked = watched = 0;
  patience = seconds;
  code = status;
  strncpy(words, text, sizeof words - 1);
}

void cffem_end(void)
{
  alarm(0);
  sigaction(SIGALRM, &alarm_before, 0);
}

int cffem_watch(int number)
{
  struct sigaction mine, ring;
  memset(&mine, 0, sizeof mine);
  memset(&ring, 0, sizeof ring);
  ring.sa_handler = leave;
  sigaction(SIGALRM, &ring, watched++ ? 0 : &alarm_before);
  mine.sa_sigaction = take;
  mine.sa_flags = SA_SIGINFO;
  return sigaction(number, &mine, &before[number]);
}
"""


@cache
def library() -> ctypes.CDLL | None:
    """The compiled handlers; None where there is no compiler, and signals wait for Python."""
    name = f"signals-{hashlib.sha256(SOURCE.encode()).hexdigest()[:16]}.so"
    try:
        target = cache_folder() / name
        if not target.exists():
            _compile(target)
        return ctypes.CDLL(str(target))
    except (OSError, subprocess.SubprocessError) as error:
        log.debug("signals wait for Python: %s", error)
        return None


def _compile(target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    part = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        subprocess.run(
            [compiler[0], "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", str(part)],
            input=SOURCE.encode(),
            capture_output=True,
            check=True,
            timeout=60,
        )
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def leave_in_time(names: Sequence[str], seconds: int, code: int, words: str) -> bool:
    """Stand in front of Python's handlers of these signals; whether that is possible.

    Args:
        names: the signals.
        seconds: how long the run has to end by itself.
        code: the exit code.
        words: what is said when it has not.
    """
    found = library()
    if found is None:
        return False
    found.cffem_settings(seconds, code, words.encode()[:255])
    return not any(found.cffem_watch(int(getattr(signal, name))) for name in names)


def leave_no_more() -> None:
    """Stop the alarm, and leave it to those who had it before."""
    found = library()
    if found is not None:
        found.cffem_end()


def end_with_launcher() -> None:
    """Let this rank be killed when the launcher that started it dies (Linux): a rank that nobody
    waits for would compute on, or wait in a collective call for ever.
    """
    parent = os.getppid()
    if parent <= 1 or not {"PMIX_RANK", "PMI_RANK"} & set(os.environ):
        return
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, int(signal.SIGKILL), 0, 0, 0)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:  # it died before
            os._exit(1)
