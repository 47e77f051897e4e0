/* The rules of the protocol. Each stands in the model as 1; -D<rule>=0 builds the model without it.
 * The table in rules_test.go names what goes wrong then. */

#define RULE 1

/* A ticket joins by one command only: if that has no answer, the client takes a new ticket. */
#ifndef JOIN_ONCE
#define JOIN_ONCE RULE
#endif
/* A look never puts a ticket in the queue. */
#ifndef LOOK_KEEPS_OUT
#define LOOK_KEEPS_OUT RULE
#endif
/* A grant that a message tells is trusted from before the last command was sent that found the ticket in the queue. */
#ifndef TRUST_FROM_SEEN
#define TRUST_FROM_SEEN RULE
#endif
/* If no more than half of the claim is left, the client looks before it trusts the grant. */
#ifndef HALF_A_CLAIM
#define HALF_A_CLAIM RULE
#endif
/* A waiting client looks after its ticket once a claim. */
#ifndef LOOKS
#define LOOKS RULE
#endif
/* Each reply is trusted from the time at which its own command was sent. */
#ifndef OWN_SEND_TIME
#define OWN_SEND_TIME RULE
#endif
/* A join enters for a claim; only a look enters for the full lease. */
#ifndef JOIN_CLAIMS
#define JOIN_CLAIMS RULE
#endif
/* Neither a look nor a grant shortens what a holder has. */
#ifndef NEVER_SHORTEN
#define NEVER_SHORTEN RULE
#endif
/* A grant is trusted for no longer than the lease of a look that is in flight. */
#ifndef LEAST_LEASE
#define LEAST_LEASE RULE
#endif
/* After an unanswered join the next join takes the old ticket out. */
#ifndef SWAP
#define SWAP RULE
#endif
/* The Keeper sends a leave until it is answered. */
#ifndef LEAVE_ANSWERED
#define LEAVE_ANSWERED RULE
#endif
/* A grant for a ticket that the client does not know is given back at once. */
#ifndef GIVE_BACK
#define GIVE_BACK RULE
#endif
/* So is a ticket of its own that a reply names as the holder. */
#ifndef GIVE_BACK_NAMED
#define GIVE_BACK_NAMED RULE
#endif
/* An answer ends only a leave that was asked for before the command was sent. */
#ifndef LEAVE_AGAIN
#define LEAVE_AGAIN RULE
#endif
/* A reply that finds the ticket neither inside nor in the queue makes the client join the end with a new ticket. */
#ifndef NEW_TICKET
#define NEW_TICKET RULE
#endif
/* A subscription that was lost and made again swaps the ticket. */
#ifndef RESUBSCRIBE_SWAPS
#define RESUBSCRIBE_SWAPS RULE
#endif
/* A ticket whose client nobody can tell is skipped at the grant, unless it polls. */
#ifndef SKIP_DEAF
#define SKIP_DEAF RULE
#endif
/* A ticket that was granted leaves a mark until it leaves. If the lock is free and a mark is left, the holder
 * died without a word: the tickets of its client go. */
#ifndef MARKS
#define MARKS RULE
#endif
/* A mark counts for its own ticket: it need not be that nobody holds the lock. */
#ifndef EACH_MARK
#define EACH_MARK RULE
#endif
/* A step grants the lock to all at the front for whom it is open: leading readers enter together. */
#ifndef ALL_AT_ONCE
#define ALL_AT_ONCE RULE
#endif
/* A ticket that polls is granted although nobody can tell it. */
#ifndef GRANT_POLLERS
#define GRANT_POLLERS RULE
#endif
/* It looks far more often than once a claim. */
#ifndef POLLS_OFTEN
#define POLLS_OFTEN RULE
#endif
/* But not those of a client that speaks just now. */
#ifndef SPARE_SPEAKER
#define SPARE_SPEAKER RULE
#endif
/* The queue is absent only if its key is: marks count. */
#ifndef MARKS_COUNT
#define MARKS_COUNT RULE
#endif
/* A message that comes too late to be trusted is remembered until a later look tells. */
#ifndef REMEMBER
#define REMEMBER RULE
#endif
/* A TryLock that is refused although nobody holds the lock takes a step. */
#ifndef TRY_STEPS
#define TRY_STEPS RULE
#endif
/* Once others wait, a tenure ends after a number of hand-offs. */
#ifndef HANDOFF_LIMIT
#define HANDOFF_LIMIT RULE
#endif
/* The reply to a mirror tells whether others wait. */
#ifndef MIRROR_TELLS
#define MIRROR_TELLS RULE
#endif

/* Locks that linger. */

/* An acquire that is denied, and a join that makes the first ticket, call the holder if it may linger. */
#ifndef CALLS
#define CALLS RULE
#endif
/* A look for the first ticket calls again. */
#ifndef LOOKS_CALL
#define LOOKS_CALL RULE
#endif
/* A lingering tenure that is called is released at once. */
#ifndef RELEASE_AT_CALL
#define RELEASE_AT_CALL RULE
#endif
/* A tenure that is called while it is in use does not linger. */
#ifndef CALL_KEPT
#define CALL_KEPT RULE
#endif
/* But it is in use until its holder unlocks. */
#ifndef USE_STAYS
#define USE_STAYS RULE
#endif
/* Nothing begins in a tenure whose release has been decided. */
#ifndef NO_WAY_BACK
#define NO_WAY_BACK RULE
#endif
/* Nothing begins in a tenure that is not trusted any more. */
#ifndef REUSE_TRUSTED
#define REUSE_TRUSTED RULE
#endif
/* Only a tenure that an acquire took lingers, as its UUID says. */
#ifndef ACQUIRED_LINGER
#define ACQUIRED_LINGER RULE
#endif
/* A client that cannot be called does not let its locks linger. */
#ifndef HEARS
#define HEARS RULE
#endif
/* The renewal of a lingering tenure asks whether others wait, and counts as a call then. */
#ifndef RENEWAL_ASKS
#define RENEWAL_ASKS RULE
#endif
/* So does that of a tenure in use which may linger. */
#ifndef USE_ASKS
#define USE_ASKS RULE
#endif
/* At the end of Linger the tenure is released. */
#ifndef LINGER_ENDS
#define LINGER_ENDS RULE
#endif

/* Guests. */

/* "?" goes into the queue before the ticket that joins. */
#ifndef GUESTS_FIRST
#define GUESTS_FIRST RULE
#endif
/* "?" leaves the queue with the last ticket. */
#ifndef NEVER_ALONE
#define NEVER_ALONE RULE
#endif
/* An usher subscribes to both channels in one command, and leaves both in one. */
#ifndef ONE_SUBSCRIBE
#define ONE_SUBSCRIBE RULE
#endif
/* An usher looks once when its subscription is confirmed. */
#ifndef USHER_LOOKS
#define USHER_LOOKS RULE
#endif
/* When the first waiter leaves while a guest holds the lock or has its turn, the new first one is told. */
#ifndef FRONT_TOLD
#define FRONT_TOLD RULE
#endif
/* A look during a guests' turn is answered with what is left of it. */
#ifndef WINDOW_TOLD
#define WINDOW_TOLD RULE
#endif
/* A release that reaches a guest opens a guests' turn, and acquire respects it. */
#ifndef ACQUIRE_WAITS
#define ACQUIRE_WAITS RULE
#endif
/* Where a guest was met, those that only poll have a turn from time to time. */
#ifndef POLL_TURNS
#define POLL_TURNS RULE
#endif
/* The first ticket looks often while a guest holds the lock that tells nobody when it releases it. */
#ifndef HOLDER_POLLED
#define HOLDER_POLLED RULE
#endif
/* A guests' turn is longer than a guest takes. */
#ifndef LONG_WINDOW
#define LONG_WINDOW RULE
#endif
