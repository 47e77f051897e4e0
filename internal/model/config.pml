/* What a run consists of; each can be set by -D. Times are ticks. */
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef IDS
#define IDS 3           /* tickets of a client; at least 2 */
#endif
#ifndef CLAIM
#define CLAIM 2         /* also how often a client looks */
#endif
#ifndef LEASE
#define LEASE 3
#endif
#ifndef SILENCE
#define SILENCE 0       /* after which the queue expires; 0: it does not */
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef FREE
#define FREE 0          /* 1: time passes at any time, for nothing; only safety is checked */
#endif
#ifndef BOUNDS
#define BOUNDS (1 - FREE)       /* 1: what is lost, or waits, for how many ticks is checked; for one fault */
#endif
#ifndef LOSSES
#define LOSSES 1        /* commands, replies and messages are lost or late */
#endif
#ifndef STOPS
#define STOPS 1
#endif
#ifndef DIES
#define DIES 1
#endif
#ifndef CUTS
#define CUTS 1
#endif
#ifndef WIPES
#define WIPES 1
#endif
#ifndef ACQUIRES
#define ACQUIRES 0      /* a Lock tries an acquire before it joins */
#endif
#ifndef DEAD_WAITERS
#define DEAD_WAITERS 0  /* 1: at the start client 1 is dead, but counted, with all its tickets before the one of client 0 */
#endif
#ifndef GUESTS
#define GUESTS 0        /* 1: at most one guest (a client of Redisson) holds the lock and one waits */
#endif
#ifndef POLLING
#define POLLING 0       /* n: guests do not subscribe, they poll, and have a turn once in n ticks; needs GUESTS */
#endif
#ifndef HANDOFFS
#define HANDOFFS 0      /* n: a section lasts for a tick, others of the same client always wait, and n sections may follow once others wait */
#endif
#ifndef LINGER
#define LINGER 0        /* n: a tenure that an acquire took lingers for n ticks; needs ACQUIRES */
#endif
#ifndef LINGERERS
#define LINGERERS CLIENTS       /* at that many clients */
#endif
#ifndef LOST_CALLS
#define LOST_CALLS LOSSES       /* calls are lost, or come twice */
#endif
#ifndef TRIES
#define TRIES 0         /* 1: client 0 calls TryLock only */
#endif
#ifndef FIFO
#define FIFO 0          /* 1: it is checked that no client passes another that waits */
#endif
#ifndef EAGER
#define EAGER 0         /* 1: a client looks at any time, not only when it must */
#endif
#define PLAIN 0
#define READ_WRITE 1    /* client 0 writes, the others read */
#define SEMAPHORE 2
#ifndef KIND
#define KIND PLAIN
#endif
#ifndef PERMITS
#define PERMITS 2       /* of a semaphore */
#endif
#ifndef POLLER
#define POLLER 9        /* the client that may not subscribe */
#endif
#define polls(c) ((c) == POLLER)
#if CLIENTS == 2
#define EACH(p) (p(0) || p(1))
#define SUM(p) (p(0) + p(1))
#else
#define EACH(p) (p(0) || p(1) || p(2))
#define SUM(p) (p(0) + p(1) + p(2))
#endif
