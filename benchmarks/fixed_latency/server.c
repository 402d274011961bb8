/* A server of known latency: `server DELAY_MICROSECONDS TOKENS`. One thread, one core, epoll.
 *
 * TOKENS 0: each request is answered as a whole, DELAY after its last byte. Else it is a stream of server-sent events:
 * TOKENS of them, one every DELAY, the first DELAY after the request. It prints its port, and ends with its standard
 * input; then it prints how late it was itself: "MEAN MAX" in microseconds.
 *
 * All delays are the same, so the order in which they are due is the order in which they began: a ring, no heap.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { MOST_CONNECTIONS = 4096, REQUEST = 1 << 16, RING = 1 << 13 };

struct connection {
    char *data; /* of a request that is not complete */
    size_t size;
    int sent;          /* tokens of the stream that runs */
    unsigned identity; /* of this connection, among all that had its number */
    int is_waiting;
};
struct due {
    int64_t at;
    int fd;
    unsigned identity;
};

static struct connection connections[MOST_CONNECTIONS];
static struct due ring[RING];
static unsigned head, tail;
static int64_t delay, late_sum, late_max, late_count;
static int tokens, timer;
static char whole[512], first[512], token[256], last[256];

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void arm(void) { /* for the first that is due; 0 disarms */
    int64_t at = head == tail ? 0 : ring[head % RING].at;
    struct itimerspec when = {.it_value = {at / 1000000000, at % 1000000000}};
    if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL)) fail("timerfd_settime");
}

static void schedule(int fd, int64_t from) {
    if (tail - head == RING) {
        fprintf(stderr, "more than %d requests at once\n", RING);
        exit(1);
    }
    ring[tail++ % RING] = (struct due){from + delay, fd, connections[fd].identity};
    if (tail - head == 1) arm();
}

static void drop(int fd) {
    free(connections[fd].data);
    connections[fd] = (struct connection){.identity = connections[fd].identity + 1};
    close(fd);
}

static size_t complete(const struct connection *c) { /* bytes of the first request, 0: more must come */
    char *end = memmem(c->data, c->size, "\r\n\r\n", 4);
    if (!end) return 0;
    size_t length = 0, size = end + 4 - c->data;
    for (char *line = c->data; line < end; line = (char *)memmem(line, end + 2 - line, "\r\n", 2) + 2)
        if (!strncasecmp(line, "content-length:", 15)) length = strtoul(line + 15, NULL, 10);
    return size + length <= c->size ? size + length : 0;
}

static void begin(int fd) { /* the next request, if all of it is there */
    struct connection *c = &connections[fd];
    size_t size = c->is_waiting ? 0 : complete(c);
    if (!size) return;
    c->size -= size;
    memmove(c->data, c->data + size, c->size);
    c->is_waiting = 1;
    c->sent = 0;
    schedule(fd, now());
}

static void receive(int fd) {
    struct connection *c = &connections[fd];
    ssize_t size = read(fd, c->data + c->size, REQUEST - c->size);
    if (size < 0 && errno == EAGAIN) return;
    if (size <= 0) {
        drop(fd);
        return;
    }
    c->size += size;
    begin(fd);
}

static void put(int fd, const char *text, size_t size) {
    if (write(fd, text, size) != (ssize_t)size) drop(fd); /* a client that does not read */
}

static void answer(struct due due, int64_t at) {
    struct connection *c = &connections[due.fd];
    if (c->identity != due.identity) return; /* closed meanwhile */
    char text[1024];
    int size, ends = ++c->sent >= tokens;
    if (!tokens)
        size = snprintf(text, sizeof text, whole, (at - due.at + delay) / 1e9);
    else
        size = snprintf(text, sizeof text, "%s%s%s", c->sent == 1 ? first : "", token, ends ? last : "");
    put(due.fd, text, size);
    if (c->identity != due.identity) return;
    if (ends) {
        c->is_waiting = 0;
        begin(due.fd);
    } else
        schedule(due.fd, due.at); /* from when it was due: lateness does not add up */
}

static void expire(void) {
    uint64_t count;
    if (read(timer, &count, sizeof count) < 0) return;
    int64_t at;
    while (head != tail && ring[head % RING].at <= (at = now())) {
        struct due due = ring[head++ % RING];
        int64_t late = at - due.at;
        late_sum += late, late_count++;
        if (late > late_max) late_max = late;
        answer(due, at);
    }
    arm();
}

static void welcome(int listener, int epoll) {
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK), yes = 1;
    if (fd < 0) return;
    if (fd >= MOST_CONNECTIONS) {
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    connections[fd].data = malloc(REQUEST);
    if (!connections[fd].data) fail("malloc");
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event)) fail("epoll_ctl");
}

static void chunk(char *into, size_t room, const char *event) {
    snprintf(into, room, "%zx\r\n%s\r\n", strlen(event), event);
}

static void prepare(void) {
    const char *body = "{\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"message\":{\"content\":\"OK\"},\"finish_reason\":\"stop\"}],"
                       "\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}";
    snprintf(whole, sizeof whole,
             "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-served-seconds: %%.9f\r\n"
             "content-length: %zu\r\n\r\n%s",
             strlen(body), body);
    snprintf(first, sizeof first,
             "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n");
    chunk(token, sizeof token, "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\n\n");
    char event[200];
    snprintf(event, sizeof event,
             "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}],"
             "\"usage\":{\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n",
             tokens);
    chunk(last, sizeof last - 5, event);
    strcat(last, "0\r\n\r\n");
}

int main(int count, char **words) {
    if (count != 3) {
        fprintf(stderr, "usage: %s DELAY_MICROSECONDS TOKENS\n", words[0]);
        return 2;
    }
    delay = atoll(words[1]) * 1000, tokens = atoi(words[2]);
    signal(SIGPIPE, SIG_IGN); /* a client that ends before its stream does: guidellm */
    prepare();
    int listener = socket(AF_INET, SOCK_STREAM, 0), epoll = epoll_create1(0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 1024)) fail("listen");
    getsockname(listener, (struct sockaddr *)&address, &size);
    timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    int known[] = {STDIN_FILENO, listener, timer};
    for (int i = 0; i < 3; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = known[i]};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, known[i], &event)) fail("epoll_ctl");
    }
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        struct epoll_event events[256];
        int found = epoll_wait(epoll, events, 256, -1);
        for (int i = 0; i < found; i++) {
            int fd = events[i].data.fd;
            if (fd == STDIN_FILENO) {
                printf("%.1f %.1f\n", late_count ? late_sum / 1e3 / late_count : 0.0, late_max / 1e3);
                return 0;
            }
            if (fd == listener) welcome(listener, epoll);
            else if (fd == timer) expire();
            else receive(fd);
        }
        if (found > 0) expire();
    }
}
