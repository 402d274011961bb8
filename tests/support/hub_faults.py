"""Single faults of a Hub or its network: parts of rules, by name."""

LARGE, SMALL = "^/cdn/", "/resolve/.*config.json"
ONE_FAULT = {
    "500": '"do": {"answer": {"status": 500}}',
    "502 with a page": '"do": {"answer": {"status": 502, "body": "<html>Bad gateway</html>"}}',
    "429 for 7 s": '"do": {"answer": {"status": 429, "headers": {"Retry-After": "7"}}}',
    "reset": '"do": {"drop": {"reset": true}}',
    "closed": '"times": 3, "do": "drop"',
    "answer lost": '"do": "lose"',
    "hangs": '"do": {"hang": {"seconds": 60}}',
    "stalls": '"do": {"stall": {"after": 100, "seconds": 60}}',
    "cut": '"do": {"cut": {"after": 100}}',
    "cut by a reset": '"do": {"cut": {"after": 100, "reset": true}}',
    "cut four times": '"times": 4, "do": {"cut": {"after": 60}}',
    "flipped first byte": '"do": {"flip": {"at": 0}}',
    "too long": '"do": {"pad": {"count": 9}}',
    "error body with 200": '"do": {"answer": {"status": 200, "body": "<Error>no</Error>"}}',
    "empty body with 200": '"do": {"answer": {"status": 200}}',
    "204": '"do": {"answer": {"status": 204}}',
}
WHEN_RANGED = {
    "range ignored": '"do": "ignore_range"',
    "another range": '"do": {"shift_range": {"by": 7}}',
    "range without its place": '"do": {"change": {"remove": ["Content-Range"]}}',
    "range of another size": '"do": {"change": {"headers": {"Content-Range": "bytes 100-200/999"}}}',
    "range refused": '"do": {"answer": {"status": 416}}',
    "wrong bytes under a right range": '"do": {"flip": {"at": 3}}',
}
