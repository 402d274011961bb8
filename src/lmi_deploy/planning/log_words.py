"""What a line of a log means by its words alone: failures, ends of processes,
warnings, and lines that only pass on that something failed."""

from __future__ import annotations

import re
from typing import Final


def _any_of(phrases: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """One phrase a line; words on a line that begins with + are separate."""
    found: list[str] = []
    for line in map(str.strip, phrases.strip().splitlines()):
        found += line[1:].split() if line.startswith("+") else [line]
    return re.compile("|".join(found), flags)


ALARMING: Final = (
    *("rror", "xception", "raceback", "ailed", "ailure", "annot", "enied", "nvalid", "xceed", "OOM", "illed"),
    *(
        "upported",
        "Retry",
        "retry",
        "estart",
        "imed",
        "imeout",
        "issing",
        "efused",
        "ismatch",
        "Warn",
        "warn",
    ),
    *("able to", "ot found", "ut of", "not support", "not enough", "not available"),
)
"""Parts of words of which a line at level INFO must have one to be looked at. No pattern: to search for each is
three times as fast."""

FAILING: Final = re.compile(
    rf"""\b(?:{
        _any_of(
            '''
    + fail(?:s|ed|ure)? error cannot can't couldn't invalid illegal exceed(?:s|ed)? unsupported unavailable insufficient
    + missing unknown unrecognized refused restricted expired mismatch conflict(?:s|ing)? corrupt(?:ed)? forbidden
    + incorrect unexpected required requires oversize panic(?:ked)? throttl[a-z]+ shouldn't den(?:ied|y) doesn't
    could not
    unable to
    (?:does|is|are|do) not
    not (?:found|support(?:ed)?|available|enough|authorized|enabled|pass|grant)
    no such
    must (?:be|have)
    too (?:large|long|old|many|small|big|short|slow)
    timed? ?out
    out of
    no [a-z]+ (?:is |are |was |were )?(?:found|available)
    no (?:object|file|model)s?
    took longer
    is empty
    no cached
    please (?:use|make sure|ensure|check)
    can ?not
    no longer
    has been removed
    only supports?
    (?:greater|less|smaller|larger) than
    needs? to
    already exist(?:s|ing)?
    '''
        ).pattern
    })\b""",
    re.IGNORECASE,
)
"""Of a sentence at no level that may be a failure."""

ENDS: Final = _any_of(
    r"""
    ^Killed$
    ^.{0,80}: line \d+: +\d+ Killed\b
    ^(?:Segmentation fault|Bus error|Aborted|Illegal instruction|Floating point exception)
    ^terminate called
    ^Fatal Python error
    ^!+ ?Segfault
    ^\*\*\* (?:SIG|Process received signal)
    ^thread '[^']*' panicked
    ^Signal: \w+ \(\d+\)$
    exec format error
    core dumped
    exit(?:ed)?(?: \w+)? (?:with )?(?:exit )?(?:code|status|signal)[: ]+(?:-?[1-9])
    exit code: -?[1-9]
    died unexpectedly
    was terminated by
    Out of memory: Kill
    oom-kill
    OutOfMemoryError: Java heap
    command not found$
    """
)
"""How a process ended."""

WRAPPERS: Final = _any_of(
    r"""
    see (?:the )?(?:root cause|stack trace|error|log|above|traceback)
    \w*(?:engine|worker|process|model|executor|server|core|service)\w*\b[\w ]{0,30} (?:initiali[sz]ation failed|failed to (?:start|initiali[sz]e|launch))
    \w*(?:engine|worker|process|model|executor|server|core|service)\w*\b[\w ]{0,30} (?:has |have |is |was )?(?:died|dead|terminated|stopped|exited|crashed)
    failed to start (?:worker|server|model|engine|the)
    died unexpectedly
    shutting down
    stream closed
    unrecoverable
    stack trace (?:above|for)
    Failed core proc
    loading (?:of )?(?:the )?models? (?:\S+ )?failed
    failed to load all models
    errors? (?:occurred )?(?:while|during|when) (?:loading|invoking|initiali[sz]ing|starting) (?:the )?(?:model|module|handler|worker)
    ping health check
    please (?:check|see) (?:the )?cloudwatch
    exit(?:ed)?(?: unexpectedly)?,? (?:with )?(?:exit )?(?:code|status):? 1\b
    Failed to predict
    failed (?:to )?register
    Exception in (?:worker|thread|ASGI)
    raised an? (?:exception|error)
    failed (?:invoke|to invoke)
    """,  # noqa: E501
    re.IGNORECASE,
)
"""Of lines that only pass on that something failed."""

BENIGN: Final = _any_of(
    r"""
    \bfall(?:ing|s)? ?back
    \binstead\b
    will not be (?:available|used)
    is disabled\b
    \bignor(?:e|es|ed|ing)\b
    \bslower\b
    not (?:fully )?optimi[sz]ed
    \bdeprecat
    sub-?optimal
    \bperformance\b
    \bskip(?:ping|ped)?\b
    will be (?:used|ignored|set|converted|disabled)
    no effect
    \bretry(?:ing)?\b
    (?<!NCCL )\bWARN(?:ING)?\b
    , using\b
    \busing the default
    \bby default\b
    \bdefault(?:s|ing) to\b
    \bnote that\b
    \bplease consider\b
    \bproceed(?:ing)?\b
    \bcontinu(?:e|ing)\b
    \boverrid(?:e|ing|den)\b
    \bnormal\b
    \boptional\b
    \brecommended\b
    \bhence\b
    in a future
    \bto avoid\b
    \bmake sure\b.{0,80}(?:fine.?tuned|trained)
    \bUserWarning
    """,
    re.IGNORECASE,
)
"""What only a warning says of itself."""

SERVICE: Final = re.compile(
    r"\b(?:endpoints?|variant|inference components?|sagemaker|amazon|aws|iam|role|s3|arn:aws|ecr|vpc|subnets?|quota|kms"
    r"|instance types?|model data|bucket|provision|request|invocation|prompt|tokens|lora|adapters?|images?|container"
    r"|handler|preload|message size)\b",
    re.IGNORECASE,
)
"""What a refusal of a service or of a request is about: such a sentence is alone, without a log around it."""

SAID: Final = re.compile(
    r"^(?:\{.{0,60}\"(?:code|status|error|type)\": ?(?:[45]\d\d|\"\w*(?:Exception|Error))"
    r"|An error occurred \((?P<code>\w+)\)|[45]\d\d (?:Client Error|Server Error|[A-Z]\w+[ :])"
    r"|(?:[\w./-]+: )?(?:fatal(?: error)?|error|panic)(?:[:]| while | in | loading | when )|.{0,80}\berror: )",
    re.IGNORECASE,
)
"""Words that only an error begins with, at whatever level."""
