/* The queue of one lock, its clients, and the network between them. See README.md.
 *
 * One event is one d_step, so one script is atomic, as in Redis. Time is one event, a tick: it ages all that has an age, at
 * every place at once (clocks that drift are the business of the margin, which is not modelled). A tick comes only when
 * nothing is due: no command, reply or message is on its way and no client has anything to do at once. Everything else
 * is a fault, and a run has FAULTS of them. So each infinite run has infinitely many ticks, "at last" is a number of
 * ticks, and no fairness has to be assumed. */

#include "config.pml"
#include "rules.pml"

mtype = {
	IDLE,
	ASKING,         /* acquire was sent */
	WANTING,        /* needs a new ticket */
	JOINING,        /* join was sent */
	QUEUED,
	HELD,
	LINGERING,      /* nobody has the lock, and the client keeps the key: see linger.pml */
	DEAD
};
/* Commands. A join, a look and a leave are the same script, step. */
mtype = { ACQUIRE, JOIN, LOOK, LEAVE, MIRROR };
/* Replies. */
mtype = {
	NONE,           /* the ticket neither holds the lock nor is in the queue */
	WAITS,
	HOLDS
};

#define TICKETS (CLIENTS * IDS)
#define owner(t) (((t) - 1) / IDS)
#define least(a, b) ((a) < (b) -> (a) : (b))
#define most(a, b) ((a) > (b) -> (a) : (b))
#define OLD most(CLAIM, LEASE)  /* ages stop here */
#define age(x, limit) if :: x < limit -> x++ :: else fi
#define lent(op) ((op) == JOIN && JOIN_CLAIMS -> CLAIM : LEASE) /* for how long a command enters */

/* Redis. Ticket t belongs to client owner(t), from 1; a number is used again when nothing refers to it any more. */
byte lease[TICKETS + 1];        /* ticks for which a ticket still holds the lock; 0: it does not. lease[0]: a guest */
chan queue = [TICKETS + 2] of { byte };
bool mark[TICKETS + 1];
bool window;                    /* a guests' turn: guests go first */
bool listens[CLIENTS];          /* PUBSUB NUMSUB counts a subscription to the client's channel */
byte silence;                   /* ticks until the queue expires; with nothing but marks in it, with the lock. 0: it does not */

/* The network. */
typedef Command { mtype op; byte out, in, age };
typedef Reply { mtype op, result; byte out, in, age, named; bool first, free, others };
Command sent[CLIENTS + 1];      /* one command of each client at a time; the last is of a connection that broke: it runs late */
Reply reply[CLIENTS + 1];
bool plus[TICKETS + 1];         /* "+ticket" is on its way */

bool zero[CLIENTS];             /* '0' of Redisson's channel is on its way to an usher */
bool turn[CLIENTS];             /* "?ticket" is on its way */

/* The clients. */
mtype state[CLIENTS];
byte ticket[CLIENTS];
bool asked[CLIENTS];            /* a command about the ticket has no answer yet */
byte since[CLIENTS];            /* ticks since it was sent */
byte seen[CLIENTS];             /* ticks since the last command was sent that found the ticket in the queue */
bool told[CLIENTS];             /* "+" came, but too late to be trusted */
byte trust[CLIENTS];            /* ticks for which a holder believes that it holds */
bool leaving[TICKETS + 1];      /* the Keeper has to take it out */
bool again[CLIENTS];            /* and has to once more: the leave that is under way may have come before what was heard */
bool rested[CLIENTS];           /* no new Lock before the next tick */
bool stopped[CLIENTS];          /* the process stands still */
byte handoffs[CLIENTS];         /* inside the client, since it knows that others wait */
bool others[CLIENTS];
bool cut[CLIENTS];              /* the subscription has ended */

byte usher[CLIENTS];            /* 2: subscribed to Redisson's channel and to `ushers`, 1: to `ushers` alone */
bool first[CLIENTS];            /* it was told that it is first, behind the guests: becomes an usher */
bool poked[CLIENTS];            /* has to look at once */
bool timed[CLIENTS];            /* has to look when the guests' turn ends */

/* Guests. lease[0] is one that holds the lock. */
bool guest;                     /* one waits: it is subscribed to Redisson's channel, unless it polls */
bool guest_zero;                /* '0' is on its way to it */
bool guest_rested;
#if POLLING
bool met;                       /* one was met as the holder, so there may be more */
byte polled;                    /* ticks until the next turn of those that poll */
#define subscribes false
#define turn_by_time (POLL_TURNS && met && !polled)
#else
#define subscribes guest
#define turn_by_time false
#endif

/* Scratch of one event; done() clears it. */
bool freed, wanted;
mtype op, r;
byte who, out, in, i, f, n;
#define done() freed = false; wanted = false; op = 0; r = 0; who = 0; out = 0; in = 0; i = 0; f = 0; n = 0; clear_scratch

byte faults;
bool wiped;

#define FAULT (faults > 0)
#define alive(c) (state[c] != DEAD && !stopped[c])
#define any(a, c) (a[(c) * IDS + 1] || a[(c) * IDS + 2] || a[(c) * IDS + IDS])
#define clear(x) x.op = 0; x.out = 0; x.in = 0; x.age = 0
#define clear_reply(y) clear(reply[y]); reply[y].result = 0; reply[y].named = 0; reply[y].first = false; reply[y].free = false; reply[y].others = false
#define queues(t) ((queue??[eval(t)]) != 0)

/* A kind is a capacity and what each client's ticket takes of it: a writer takes all. */
#if KIND == READ_WRITE
#define CAPACITY TICKETS
#define weight(c) ((c) == 0 -> TICKETS : 1)
#else
#define CAPACITY (KIND == SEMAPHORE -> PERMITS : 1)
#define weight(c) 1
#endif
/* n: what is taken of the lock. */
inline count_holders() {
	n = (lease[0] -> CAPACITY : 0); i = 1;
	do :: i <= TICKETS -> if :: lease[i] -> n = n + weight(owner(i)) :: else fi; i++ :: else -> break od
}
#define open(c) (n + weight(c) <= CAPACITY)     /* after count_holders */

#define GUEST (TICKETS + 1)     /* "?" in the queue */
#define usher1(c) (usher[c] >= 1)
#define usher2(c) (usher[c] == 2)
#define strangers (GUESTS && subscribes + SUM(usher2) - SUM(usher1) > 0)
#define tickets_queued (len(queue) - queues(GUEST))
#define guests_go (lease[0] || window)
#include "linger.pml"
#include "properties.pml"

inline take_out(t) {
	if :: queues(t) -> queue??eval(t) :: else fi
}
/* '0' to Redisson's channel. */
inline publish() {
	guest_zero = subscribes;
	i = 0;
	do :: i < CLIENTS -> zero[i] = zero[i] || usher[i] == 2; i++ :: else -> break od
}
inline free_for_guests() {
	publish();
	if :: subscribes && ACQUIRE_WAITS -> window = true :: else fi
}
/* f: the first ticket in the queue; 0: none. */
inline first_ticket() {
	f = 0; i = len(queue);
	do :: i > 0 -> queue?n; queue!n; if :: f == 0 && n != GUEST -> f = n :: else fi; i-- :: else -> break od
}
/* "?ticket" to the client that is first. */
inline tell_first() {
	first_ticket();
	if :: f && guests_go && GUESTS && listens[owner(f)] -> turn[owner(f)] = true :: else fi
}
inline enter(t, ms) {
	lease[t] = ms;
	was_granted(t)
}
inline tell(t) {
	plus[t] = listens[owner(t)];
	was_told(t)
}

/* n: is there a mark; it is here that MARKS_COUNT matters. */
inline count_marks() {
	n = 0; i = 1;
	do :: i <= TICKETS -> if :: mark[i] -> n++ :: else fi; i++ :: else -> break od
}

inline longest_lease() {
	n = 0; i = 0;
	do :: i <= TICKETS -> n = most(n, lease[i]); i++ :: else -> break od
}

inline acquire() {
	count_marks(); f = n; count_holders();
	if
	:: lease[in] -> r = HOLDS
	:: !lease[in] && open(who) && f == 0 && len(queue) == 0 && !(window && ACQUIRE_WAITS) -> enter(in, LEASE); r = HOLDS
	:: else -> r = NONE; call_holders()
	fi
}

inline mirror() {
	if :: lease[in] -> lease[in] = most(lease[in], LEASE); r = HOLDS :: else -> r = NONE fi
}

/* The tickets of clients whose holder ended without a word. */
inline drop_dead() {
	count_holders(); f = 1;
	do
	:: (n == 0 || EACH_MARK) && f <= TICKETS ->
		if
		:: mark[f] && !lease[f] ->
			mark[f] = false;
			if
			:: MARKS && !(SPARE_SPEAKER && owner(f) == who) ->
				i = owner(f) * IDS + 1;
				do :: i <= owner(f) * IDS + IDS -> take_out(i); i++ :: else -> break od
			:: else
			fi
		:: else
		fi;
		f++
	:: else -> break
	od
}
inline grant() {
	do
	:: len(queue) > 0 && !window ->
		queue?<f>; count_holders();
		if
		:: f == GUEST && n == 0 ->
			queue?f; turn_comes();
			if :: strangers -> window = true; publish(); tell_first() :: else fi
#if POLLING
		:: f != GUEST && open(owner(f)) && turn_by_time -> polled = POLLING; window = true; publish(); tell_first()
#endif
		:: f != GUEST && open(owner(f)) && !turn_by_time ->
			queue?f;
			if
			:: f == in -> enter(f, lent(op)); mark[f] = true
			:: f != in && (listens[owner(f)] || (polls(owner(f)) && GRANT_POLLERS) || !SKIP_DEAF) -> enter(f, CLAIM); mark[f] = true; tell(f); if :: ALL_AT_ONCE :: else -> break fi
			:: else
			fi
		:: else -> break
		fi
	:: else -> break
	od
}
inline guests_queue(joins) {
	if :: strangers && !queues(GUEST) && (tickets_queued > 0 || joins) -> queue!GUEST :: else fi
}
/* step: the ticket out leaves, the ticket in joins or looks, and the lock goes to the front. */
inline step() {
	count_marks();
	if
	:: op == LEAVE && len(queue) == 0 && (n == 0 || !MARKS_COUNT) -> if :: lease[out] -> lease[out] = 0; free_for_guests() :: else fi; r = NONE      /* nobody queues: early exit */
	:: else ->
		freed = out && lease[out];
		if
		:: out ->
			first_ticket();
			lease[out] = 0; mark[out] = false; take_out(out); was_left(out);
			if :: f == out && FRONT_TOLD -> tell_first() :: else fi
		:: else
		fi;
		if :: GUESTS_FIRST -> guests_queue(op == JOIN) :: else fi;
		if :: in && (op == JOIN || !LOOK_KEEPS_OUT) && !lease[in] && !queues(in) -> queue!in :: else fi;
		if :: !GUESTS_FIRST -> guests_queue(false) :: else fi;
		drop_dead();
		grant();
		if :: tickets_queued == 0 && NEVER_ALONE -> take_out(GUEST) :: else fi;
#if POLLING
		if :: in && lease[0] -> met = true :: else fi;
#endif
		count_holders();
		if :: freed && n == 0 && len(queue) == 0 && !window -> free_for_guests() :: else fi;
		count_marks();
		if :: len(queue) > 0 -> silence = SILENCE :: len(queue) == 0 && n > 0 -> longest_lease(); silence = n :: else -> silence = 0 fi;
		if
		:: in && lease[in] ->
			lease[in] = (NEVER_SHORTEN -> most(lease[in], lent(op)) : lent(op)); r = HOLDS; was_kept(in)
		:: in && !lease[in] && queues(in) -> r = WAITS; call_if_first()
		:: else -> r = NONE
		fi
	fi
}

inline describe() { /* in a trace */
	i = 0;
	do :: i <= TICKETS -> if :: lease[i] -> printf("    ticket %d holds, for %d\n", i, lease[i]) :: else fi; i++ :: else -> break od;
	i = len(queue);
	do :: i > 0 -> queue?f; queue!f; printf("    in the queue: %d\n", f); i-- :: else -> break od
}

/* One connection: of client y, or the broken one. */
proctype Connection(byte y) {
	do
	:: d_step { sent[y].op && !reply[y].op ->
		op = sent[y].op; out = sent[y].out; in = sent[y].in;
		who = (y < CLIENTS -> y : (in -> owner(in) : owner(out)));
		if :: op == ACQUIRE -> acquire() :: op == MIRROR -> mirror() :: else -> step() fi;
		printf("Redis runs %e of client %d: leave %d, ticket %d: %e\n", op, who, out, in, r);
		describe();
		if
		:: y < CLIENTS ->
			reply[y].op = op; reply[y].out = out; reply[y].in = in; reply[y].age = sent[y].age; reply[y].result = r;
			i = who * IDS + 1; n = 0;
			do :: i <= who * IDS + IDS -> if :: i != in && lease[i] -> n = i :: else fi; i++ :: else -> break od;
			reply[y].named = n;
			count_holders();
			reply[y].free = TRIES && n == 0;
			reply[y].others = (HANDOFFS || LINGER) && (len(queue) > 0 || strangers);
			if :: GUESTS -> first_ticket(); reply[y].first = r == WAITS && f == in && guests_go :: else fi
		:: else
		fi;
		clear(sent[y]);
		done() }
	:: d_step { sent[y].op && (FAULT && LOSSES || y == CLIENTS) -> printf("FAULT command of connection %d lost\n", y);
		if :: y < CLIENTS -> faults-- :: else fi; clear(sent[y]);
		done() }
	:: d_step { y < CLIENTS && sent[y].op && FAULT && LOSSES && !sent[CLIENTS].op -> printf("FAULT command of client %d late\n", y); faults--;
		sent[CLIENTS].op = sent[y].op; sent[CLIENTS].out = sent[y].out; sent[CLIENTS].in = sent[y].in; clear(sent[y]);
		done() }
	:: d_step { y < CLIENTS && reply[y].op && FAULT && LOSSES -> printf("FAULT reply to client %d lost\n", y); faults--; clear_reply(y); done() }
	od
}

/* f: the lowest ticket of client c that nothing refers to; there is one. */
#define used(t) (lease[t] || mark[t] || plus[t] || CALL_OF(t) || leaving[t] || queues(t) || ticket[c] == t || \
	reply[c].in == t || reply[c].out == t || reply[c].named == t || sent[CLIENTS].in == t || sent[CLIENTS].out == t)
#define spare(c) (!used((c) * IDS + 1) && !LINGER || !used((c) * IDS + 2) || !used((c) * IDS + IDS))
#define spare_first(c) (LINGER -> !used((c) * IDS + 1) : spare(c))
inline fresh_ticket(first_id) {
	f = c * IDS + first_id;
	do :: used(f) -> f++ :: else -> break od;
	forget_ticket(f)
}
/* f: the lowest ticket of client c that leaves; 0: none */
inline one_leaving() {
	f = c * IDS + 1;
	do :: f <= c * IDS + IDS && !leaving[f] -> f++ :: else -> break od;
	if :: f > c * IDS + IDS -> f = 0 :: else fi
}
inline send(o, leaves, t) {
	printf("client %d sends %e: leave %d, ticket %d\n", c, o, leaves, t);
	sent[c].op = o; sent[c].out = leaves; sent[c].in = t; sent[c].age = 0;
	if :: t -> asked[c] = true; since[c] = 0; poked[c] = false :: else fi
}
/* The ticket is no longer wanted. */
inline drop_ticket(next) {
	first[c] = false; poked[c] = false; timed[c] = false; others[c] = false; handoffs[c] = 0; forget_linger(c);
	if :: ticket[c] -> leaving[ticket[c]] = true :: else fi;
	ticket[c] = 0; trust[c] = 0; seen[c] = 0; told[c] = false; asked[c] = false; since[c] = 0; ends(c); gives_up(c); state[c] = next;
	rested[c] = (next == IDLE)
}
inline hold(ms) {
	first[c] = false; poked[c] = false; timed[c] = false;
	if :: !kept(c) -> begins(c); state[c] = HELD :: else fi;
	trust[c] = most(trust[c], ms); seen[c] = 0; told[c] = false; asked[c] = false; since[c] = 0; printf("client %d holds, trusts %d\n", c, trust[c]); check_holders()
}
/* "+" for the ticket that waits. A join in flight is what `seen` counts from. */
#define looking (asked[c] && state[c] == QUEUED)
#define bound ((TRUST_FROM_SEEN -> (seen[c] >= CLAIM -> 0 : CLAIM - seen[c]) : CLAIM))
#define bounded (LEAST_LEASE && looking -> least(bound, LEASE) : bound)
#define enough(left) ((left) > 0 && (2 * (left) > least(CLAIM, LEASE) || !HALF_A_CLAIM))
inline take_grant() {
	if
	:: enough(bounded) -> n = bounded; hold(n)
	:: else -> if :: REMEMBER -> told[c] = true :: else -> if :: asked[c] :: else -> seen[c] = OLD fi fi /* looks */
	fi
}
/* The client has heard that ticket t of its own, which it does not want, holds the lock. */
inline give_back(t, rule) {
	hears(t);
	if :: rule -> leaving[t] = true; again[c] = again[c] || ((sent[c].out == t || reply[c].out == t) && LEAVE_AGAIN) :: else fi
}
inline read_reply() {
	op = reply[c].op; out = reply[c].out; in = reply[c].in; r = reply[c].result; n = reply[c].named;
	if :: reply[c].first && in == ticket[c] && state[c] != HELD -> first[c] = true; timed[c] = WINDOW_TOLD && window :: else fi;
	others[c] = others[c] || (HANDOFFS && reply[c].others && state[c] == HELD && (op != MIRROR || MIRROR_TELLS));
	f = reply[c].free; wanted = LINGER && reply[c].others && op == MIRROR;
	i = (OWN_SEND_TIME -> reply[c].age : since[c]);
	clear_reply(c);
	printf("client %d (%e, ticket %d) reads: %e of ticket %d, sent %d ago: %e\n", c, state[c], ticket[c], op, in, i, r);
	if :: out -> leaving[out] = again[c]; again[c] = false :: else fi;
	if :: n && n != ticket[c] -> give_back(n, GIVE_BACK_NAMED) :: else fi;
	if
	:: op == LEAVE || in == 0
	:: op != LEAVE && in && in != ticket[c] -> if :: r == HOLDS -> give_back(in, GIVE_BACK_NAMED) :: else fi
	:: op != LEAVE && in && in == ticket[c] ->
		if :: op == JOIN -> joined(c) :: else fi;
		if :: sent[c].in != in -> asked[c] = false; since[c] = 0 :: else fi;
		if
		:: r == HOLDS && enough(lent(op) - i) -> i = lent(op) - i; hold(i)
		:: r == HOLDS && !enough(lent(op) - i) && !kept(c) -> state[c] = QUEUED; seen[c] = OLD
		:: r == WAITS && !kept(c) -> state[c] = QUEUED; seen[c] = least(seen[c], i); if :: told[c] -> take_grant() :: else fi
		:: r == NONE && state[c] == HELD -> lost(c); drop_ticket(IDLE)
		:: r == NONE && state[c] == LINGERING -> drop_ticket(IDLE)  /* nobody's loss */
		:: r == NONE && state[c] == ASKING && TRIES && c == 0 ->     /* TryLock fails */
			ticket[c] = 0; drop_ticket(IDLE); refuses();
			if :: f && TRY_STEPS && !sent[c].op -> send(LOOK, 0, 0) :: else fi
		:: r == NONE && !kept(c) && !(state[c] == ASKING && TRIES && c == 0) -> if :: NEW_TICKET || state[c] != QUEUED -> ticket[c] = 0; drop_ticket(WANTING) :: else -> seen[c] = 0 fi
		:: else
		fi;
		if :: wanted && kept(c) && RENEWAL_ASKS && (USE_ASKS || state[c] == LINGERING) -> recall() :: else fi
	fi
}

inline forget_messages(c) {
	i = c * IDS + 1;
	do :: i <= c * IDS + IDS -> plus[i] = false; FORGET_CALL(i); i++ :: else -> break od
}
inline die(c) {
	i = c * IDS + 1;
	do :: i <= c * IDS + IDS -> leaving[i] = false; i++ :: else -> break od;
	forget_messages(c);
	usher[c] = 0; zero[c] = false; turn[c] = false; first[c] = false; poked[c] = false; timed[c] = false; others[c] = false; handoffs[c] = 0; forget_linger(c);
	ticket[c] = 0; trust[c] = 0; seen[c] = 0; told[c] = false; asked[c] = false; since[c] = 0; rested[c] = false; again[c] = false; cut[c] = false; state[c] = DEAD; clear_reply(c)
}

/* What must be done before time goes on. */
#define unanswered(c) (asked[c] && since[c] > 0 && !sent[c].op)
#define must_look(c) (state[c] == QUEUED && LOOKS && (seen[c] >= CLAIM || told[c] || poked[c] || (polls(c) && POLLS_OFTEN && seen[c] > 0) || (POLLING && HOLDER_POLLED && usher[c] && seen[c] > 0)) && !asked[c])
#define must_usher(c) (GUESTS && state[c] == QUEUED && first[c] && usher[c] < 2)
#define can_look(c) (EAGER && state[c] == QUEUED && !asked[c])
#define must_release(c) (HANDOFFS && state[c] == HELD && handoffs[c] >= HANDOFFS && HANDOFF_LIMIT)
#define must_mirror(c) (kept(c) && trust[c] < LEASE && !asked[c])

proctype Client(byte c) {
	do
	/* Lock: at any time. */
#if ACQUIRES || TRIES
	:: d_step { state[c] == IDLE && !rested[c] && !stopped[c] && !sent[c].op && spare_first(c) && (c == 0 || !TRIES) ->
		fresh_ticket(1); ticket[c] = f; state[c] = ASKING; send(ACQUIRE, 0, f);
		done() }
#endif
	:: d_step { ((state[c] == IDLE && !rested[c] && !ACQUIRES && !(TRIES && c == 0)) || state[c] == WANTING) && !stopped[c] && !sent[c].op && !cut[c] && spare(c) ->
		one_leaving(); n = f;
		fresh_ticket(1 + (LINGER > 0)); ticket[c] = f; state[c] = JOINING; seen[c] = 0; send(JOIN, n, f);
		done() }
	:: d_step { (must_look(c) || can_look(c)) && !stopped[c] && !sent[c].op -> send(LOOK, 0, ticket[c]); done() }
	:: d_step { must_mirror(c) && !stopped[c] && !sent[c].op -> send(MIRROR, 0, ticket[c]); done() }
	:: d_step { reply[c].op && alive(c) -> read_reply(); done() }
	:: d_step { unanswered(c) && alive(c) -> asked[c] = false; since[c] = 0;
		printf("client %d (%e) has no answer about ticket %d\n", c, state[c], ticket[c]);
		if
		:: state[c] == ASKING -> drop_ticket(WANTING)
		:: state[c] == JOINING -> 
			if :: JOIN_ONCE -> n = ticket[c]; drop_ticket(WANTING); leaving[n] = SWAP
			:: else -> send(JOIN, 0, ticket[c])
			fi
		:: state[c] == QUEUED -> seen[c] = OLD
		:: else
		fi;
		done() }
	:: d_step { any(plus, c) && alive(c) ->
		f = c * IDS + 1;
		do :: !plus[f] -> f++ :: else -> break od;
		plus[f] = false; printf("\"+%d\" reaches client %d (%e, ticket %d, seen %d ago)\n", f, c, state[c], ticket[c], seen[c]);
		if
		:: f == ticket[c] && (state[c] == QUEUED || state[c] == JOINING) -> hears(f); take_grant()
		:: f != ticket[c] -> give_back(f, GIVE_BACK)
		:: else
		fi;
		done() }
#if GUESTS
	/* It is first, behind the guests: an usher. */
	:: d_step { turn[c] && alive(c) -> turn[c] = false; printf("\"?\" reaches client %d (%e)\n", c, state[c]);
		if :: state[c] == QUEUED || state[c] == JOINING -> first[c] = true; timed[c] = window; poked[c] = !window :: else fi;
		done() }
	:: d_step { must_usher(c) && !stopped[c] && !cut[c] -> printf("client %d becomes an usher\n", c);
		usher[c] = (ONE_SUBSCRIBE -> 2 : usher[c] + 1); first[c] = usher[c] < 2; if :: usher[c] == 2 && USHER_LOOKS -> poked[c] = true :: else fi;
		done() }
	:: d_step { usher[c] && state[c] != QUEUED && !stopped[c] -> printf("client %d is no usher any more\n", c);
		usher[c] = (ONE_SUBSCRIBE -> 0 : usher[c] - 1); zero[c] = false; first[c] = false; done() }
	:: d_step { zero[c] && alive(c) -> zero[c] = false; printf("'0' reaches client %d (%e)\n", c, state[c]); poked[c] = usher[c] && state[c] == QUEUED; done() }
#endif
#if LINGER
	:: d_step { called(c) && alive(c) ->
		f = c * IDS + 1;
		do :: !call[f] -> f++ :: else -> break od;
		if :: true -> call[f] = false :: FAULT && LOST_CALLS -> faults--; printf("FAULT \"w %d\" comes twice\n", f) fi;
		printf("\"w %d\" reaches client %d (%e, ticket %d)\n", f, c, state[c], ticket[c]);
		if :: f == ticket[c] -> recall() :: else fi;
		done() }
	/* Unlock. */
	:: d_step { may_stay(c) && !stopped[c] -> printf("client %d lets ticket %d linger\n", c, ticket[c]);
		state[c] = LINGERING; ends(c);
		done() }
	/* Lock. */
	:: d_step { may_reuse(c) && !stopped[c] -> printf("client %d holds again, by ticket %d, trusts %d\n", c, ticket[c], trust[c]);
		state[c] = HELD; lingered[c] = 0; trust[c] = most(trust[c], 1); begins(c); uses_again(); check_holders();
		done() }
	:: d_step { must_let_go(c) && !stopped[c] -> printf("client %d lets go of ticket %d, which lingered for %d\n", c, ticket[c], lingered[c]);
		let_go();
		done() }
#endif
	/* The Keeper. */
	:: d_step { any(leaving, c) && alive(c) && !sent[c].op -> one_leaving();
		if :: !LEAVE_ANSWERED -> leaving[f] = false :: else fi;
		send(LEAVE, f, 0);
		done() }
	/* Unlock, or the caller leaves; or the lease has ended. */
	:: d_step { state[c] != IDLE && state[c] != DEAD && !stopped[c] -> printf("client %d lets go of ticket %d (%e)\n", c, ticket[c], state[c]);
		if :: state[c] == HELD && trust[c] == 0 -> lost(c) :: else fi;
		drop_ticket(IDLE);
		done() }

	/* Faults. */
#if LINGER
	:: d_step { called(c) && FAULT && LOST_CALLS -> faults--; f = c * IDS + 1;
		do :: !call[f] -> f++ :: else -> break od;
		call[f] = false; printf("FAULT \"w %d\" lost\n", f);
		done() }
#endif
	:: d_step { any(plus, c) && FAULT && LOSSES -> faults--; f = c * IDS + 1;
		do :: !plus[f] -> f++ :: else -> break od;
		plus[f] = false; printf("FAULT \"+%d\" lost\n", f);
		done() }
	:: d_step { alive(c) && FAULT && STOPS -> faults--; stopped[c] = true; printf("FAULT client %d stands still\n", c); done() }
	:: d_step { stopped[c] -> stopped[c] = false; printf("client %d goes on\n", c); done() }
	:: d_step { alive(c) && FAULT && DIES -> faults--; die(c); listens[c] = false; printf("FAULT client %d dies\n", c); done() }
	:: d_step { alive(c) && FAULT && DIES -> faults--; die(c); printf("FAULT client %d dies, its subscription is still counted\n", c); done() }
	:: d_step { alive(c) && FAULT && CUTS && listens[c] -> faults--; listens[c] = false; cut[c] = true; forget_messages(c); printf("FAULT subscription of client %d ends\n", c); done() }
	:: d_step { cut[c] && alive(c) && !sent[c].op -> cut[c] = false; listens[c] = true; printf("client %d subscribed again\n", c);
		if :: (state[c] == QUEUED || state[c] == JOINING) && RESUBSCRIBE_SWAPS -> drop_ticket(WANTING) :: else fi;
		done() }
	od
}
/* The queue is lost: a failover, or somebody deletes it. */
inline lose_queue() {
	do :: len(queue) > 0 -> queue?_ :: else -> break od;
	i = 1;
	do :: i <= TICKETS -> mark[i] = false; i++ :: else -> break od;
	silence = 0
}

#define busy(c) (sent[c].op || (alive(c) && (turn[c] || zero[c] || must_usher(c) || (usher[c] && state[c] != QUEUED) || reply[c].op || unanswered(c) || state[c] == WANTING || any(leaving, c) || cut[c] || \
	must_look(c) || must_mirror(c) || must_release(c) || (state[c] == HELD && trust[c] == 0) || must_let_go(c) || called(c) || any(plus, c))))
#define guests_due (GUESTS && (window || guest_zero))


proctype World() {
	do
	:: d_step { !(EACH(busy) || guests_due) || (FAULT && LOSSES) || FREE ->
		printf("---- tick\n");
		if :: (EACH(busy) || guests_due) && !FREE -> slow = true; faults--; printf("FAULT all is slow\n") :: else fi;
		i = 0;
		do
		:: i < CLIENTS ->
			rested[i] = false;
			guest_rested = false;
			if :: sent[i].op -> age(sent[i].age, OLD) :: else fi;
			if :: reply[i].op -> age(reply[i].age, OLD) :: else fi;
			if :: asked[i] -> age(since[i], OLD) :: else fi;
			if :: state[i] == QUEUED || state[i] == JOINING -> age(seen[i], OLD) :: else fi;
			if :: trust[i] -> trust[i]-- :: else fi;
#if LINGER
			if :: state[i] == LINGERING -> age(lingered[i], LINGER) :: else fi;
#endif
			if :: others[i] && HANDOFF_LIMIT -> age(handoffs[i], HANDOFFS) :: else fi;
			i++
		:: else -> break
		od;
		i = 0;
		do :: i <= TICKETS -> if :: i && lease[i] -> lease[i]-- :: else fi; i++ :: else -> break od;
#if POLLING
		if :: polled -> polled-- :: else fi;
#endif
		if :: silence -> silence--; if :: silence == 0 -> lose_queue() :: else fi :: else fi;
		check_tick();
		done() }
	:: d_step { FAULT && WIPES && !wiped && len(queue) > 0 -> faults--; wiped = true; lose_queue(); printf("FAULT queue deleted\n"); done() }
	od
}

#if GUESTS
#define turn_wanted (guest_zero || POLLING && guest && !lease[0]) /* a guest is about to try */
#define free_lock (!lease[0] && !any(lease, 0) && !any(lease, 1))
inline guest_takes() {
	lease[0] = LEASE;
	if :: POLLING -> idle_ticks = 0 :: else fi; /* it polls at least as often as a client */
	check_holders()
}
proctype Guest() {
	do
	:: d_step { !guest && !guest_rested -> guest_rested = true; printf("Guest tries\n");
		if :: free_lock -> guest_takes() :: else -> guest = true fi; done() }
	:: d_step { guest && (guest_zero || POLLING && window || !guest_rested) -> guest_rested = true; guest_zero = false; printf("Guest, waiting, tries\n");
		if :: free_lock -> guest_takes(); guest = false; guest_served() :: else fi; done() }
	:: d_step { guest && !guest_rested -> guest_rested = true; guest = false; guest_zero = false; guest_served(); printf("Guest gives up\n"); done() }
	:: d_step { lease[0] -> printf("Guest releases\n"); lease[0] = 0; if :: !POLLING -> publish() :: else fi; done() }
	/* The guests' turn ends. */
	:: d_step { window && (!turn_wanted || !LONG_WINDOW) -> window = false; printf("the guests' turn ends\n"); i = 0;
		do :: i < CLIENTS -> poked[i] = poked[i] || timed[i]; timed[i] = false; i++ :: else -> break od; done() }
	od
}
#endif

init { atomic {
#if GUESTS
	run Guest();
#endif
	faults = FAULTS;
	i = 0;
	do :: i < CLIENTS -> state[i] = IDLE; listens[i] = !polls(i); i++ :: else -> break od;
#if DEAD_WAITERS
	state[1] = DEAD; queue!IDS + 1; queue!IDS + 2;
	if :: IDS == 3 -> queue!IDS + 3 :: else fi;
	if :: TRIES -> silence = SILENCE :: else -> state[0] = QUEUED; ticket[0] = 1; queue!1 fi;
#if CLIENTS == 3
	state[2] = HELD; ticket[2] = 2 * IDS + 1; lease[2 * IDS + 1] = LEASE; trust[2] = LEASE;
#endif
#endif
	run World(); run Connection(CLIENTS);
	run Client(0); run Connection(0); run Client(1); run Connection(1);
#if CLIENTS == 3
	run Client(2); run Connection(2)
#endif
} }
