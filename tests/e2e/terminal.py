"""A program at a terminal of its own, as a person sees and uses it."""

import fcntl
import os
import pty
import select
import signal
import subprocess
import termios

from emulator import wait

INTERRUPT, END = "\x03", "\x04"  # Ctrl-C, Ctrl-D


class Terminal:
    """`test` ends the program and closes the terminal, whatever comes. `shown`: all so far."""

    def __init__(self, test, words, **options):
        def take_it():
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        self.ours, theirs = pty.openpty()
        self.process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs,
                                        start_new_session=True, preexec_fn=take_it, **options)
        os.close(theirs)
        self.shown, self.answered = "", 0
        test.addCleanup(self.close)
        test.addCleanup(self.process.wait)
        test.addCleanup(self.process.kill)  # before it is waited for

    def close(self):
        """The window is closed."""
        if self.ours is not None:
            os.close(self.ours)
        self.ours = None

    def read(self, seconds=0.0):
        """Whether more may come."""
        if not select.select([self.ours], [], [], seconds)[0]:
            return True
        try:
            more = os.read(self.ours, 65536)
        except OSError:  # the last of the other ends is closed
            return False
        self.shown += more.decode(errors="replace").replace("\r\n", "\n")
        return bool(more)

    def until(self, condition):
        """Reads until what is shown since the last answer ends with these words, or makes this
        function true."""
        def comes():
            self.read()
            fresh = self.shown[self.answered:]
            return (fresh.rstrip(" ").endswith(condition) if isinstance(condition, str)
                    else condition(fresh))
        wait(f"{condition!r} at a terminal that shows {self.shown[-2000:]!r}", comes)

    def type(self, text):
        self.answered = len(self.shown)
        os.write(self.ours, text.encode())

    def answer(self, prompt, text):
        self.until(prompt)
        self.type(text + "\n")

    def rest(self):
        """All that is shown until it has ended."""
        wait(f"the end of what shows {self.shown[-2000:]!r}", lambda: not self.read(0.1))
        return self.shown

    def ended(self):
        """Its exit status, once nothing more is shown."""
        self.rest()
        return self.process.wait(60)
