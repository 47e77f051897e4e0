/* What is checked. The names of the variables are what a failed run reports. */
#ifndef IDLE_TICKS
#define IDLE_TICKS 2
#endif
#ifndef GUEST_PASSED
#define GUEST_PASSED (POLLING -> CLIENTS * POLLING - 1 : 2)
#endif
#ifndef KEPT_TICKS
#define KEPT_TICKS (HANDOFFS + 1)
#endif
#ifndef DEAD_TICKS
#define DEAD_TICKS (CLAIM - 1)
#endif
#ifndef UNHEARD_TICKS
#define UNHEARD_TICKS (CLAIM - 1)
#endif
#ifndef WAITED_TICKS
#define WAITED_TICKS 0
#endif
#ifndef LEFT_TICKS
#define LEFT_TICKS 4
#endif

/* Never two valid holders, or more than a semaphore has permits: holders that believe, by the trust rule, that they hold. */
#define believes(c) (state[c] == HELD && trust[c] > 0)
#define believed(c) (believes(c) -> weight(c) : 0)
byte valid_holders;             /* what they take of the lock */
inline check_holders() {
	valid_holders = SUM(believed) + (lease[0] -> CAPACITY : 0);
	assert(valid_holders <= CAPACITY)
}

byte idle_ticks;

/* No ticket is granted twice. */
bool granted[TICKETS + 1];
inline was_granted(t) { assert(!granted[t]); granted[t] = true; idle_ticks = 0; was_served(); passes(t) }
inline forget_ticket(t) { granted[t] = false; unheard[t] = 0; was_kept(t); if :: heard == t -> heard = 0 :: else fi }

/* Guests get their turn: grants while a guest waits. */
byte guest_passed;
bool missed_turn;               /* a turn comes up, a guest waits, and the turn is not opened */
inline turn_comes() { missed_turn = subscribes && !strangers; assert(!missed_turn) }
#if POLLING
#define guest_counts (guest && met)
#else
#define guest_counts (guest && GUESTS)
#endif
inline guest_served() { guest_passed = 0 }
/* No client passes another one that waits: grants to others while it does, beyond those that were before it. */
#if FIFO
byte passed[CLIENTS];
inline gives_up(c) { passed[c] = 0 }
inline passes(t) {
	if :: guest_counts -> guest_passed++; assert(guest_passed <= GUEST_PASSED) :: else fi;
	i = 0;
	do
	:: i < CLIENTS ->
		if :: i != owner(t) && state[i] == QUEUED -> passed[i]++; assert(passed[i] <= CLIENTS - 2) :: else -> passed[i] = 0 fi;
		i++
	:: else -> break
	od
}
#else
inline gives_up(c) { skip }
inline passes(t) {
	if :: guest_counts -> guest_passed++; assert(guest_passed <= GUEST_PASSED) :: else fi
}
#endif

/* No grant is lost for longer than a claim: ticks for which a ticket holds and its living client does not know. */
byte unheard[TICKETS + 1];
byte unheard_ticks;
#define unknown(t) (lease[t] && alive(owner(t)) && !(kept(owner(t)) && ticket[owner(t)] == t))

/* Nobody waits for ever beside a free lock: ticks for which a living client waits and the lock is open for the front of
 * the queue, or for that client if nobody is in the queue, since the last grant. */
#define could_enter(c) (waits(c) && (len(queue) == 0 && open(c) || front && (front == GUEST -> n == 0 : open(owner(front)))))
#define waits(c) (alive(c) && (state[c] == WANTING || state[c] == JOINING || state[c] == QUEUED))

/* When all have gone, nothing is left. */
byte left_ticks;
#define gone(c) (state[c] == IDLE || unused(c) || state[c] == DEAD)

/* A hold is not lost without a fault. With STEADY one command that is lost or late does not end it either. */
#if STEADY
byte began[CLIENTS];            /* faults that were left when the hold began */
inline begins(c) { began[c] = faults }
inline ends(c) { began[c] = 0 }
inline lost(c) { assert(began[c] - faults >= 2) }
#else
inline begins(c) { skip }
inline ends(c) { skip }
inline lost(c) { assert(faults < FAULTS || !BOUNDS) }
#endif

/* A client that hears of a grant takes it or gives it back before the next tick, unless a command about its
 * ticket has no answer yet. */
byte heard;
inline hears(t) { if :: lease[t] -> heard = t :: else fi }
inline was_left(t) { if :: heard == t -> heard = 0 :: else fi }

/* A waiter that died while it waited costs nothing, or one claim in all while its subscription is still counted:
 * ticks for which tickets hold that were granted after their client died. */
#if DIED
byte dead_ticks;
bool dead_holds, deaf_holds;
bool granted_dead[TICKETS + 1];
inline was_told(t) { granted_dead[t] = state[owner(t)] == DEAD }
inline was_kept(t) { granted_dead[t] = false }
inline count_dead(t) {
	if
	:: lease[t] && granted_dead[t] -> dead_holds = true; deaf_holds = !listens[owner(t)]; assert(!deaf_holds)
	:: else
	fi
}
#else
inline was_told(t) { skip }
inline was_kept(t) { skip }
inline count_dead(t) { skip }
#endif

/* A join is answered: it waits, or it holds. */
inline joined(c) { assert(r != NONE) }

/* A TryLock is not refused for long by tickets of dead clients: ticks in which it was, since one succeeded. */
#if TRIES
byte refused_ticks;
bool refused;
inline refuses() { refused = true }
#else
inline refuses() { skip }
#endif

/* Hand-offs inside a client end when others wait: ticks for which a client waits in the queue while another holds. */
#if HANDOFFS
byte kept[CLIENTS];
#endif

/* Nobody waits for long for a lock that lingers: ticks for which somebody waits, since the last grant. A tenure in use may
 * take as long as it likes, but neither lingers then nor is used again. */
#if LINGER
byte waited_ticks;
#define lingers_on(c) (state[c] == LINGERING && alive(c))
inline was_served() { waited_ticks = 0 }
inline uses_again() { assert(waited_ticks <= WAITED_TICKS || !BOUNDS) }
inline count_waits() {
	if :: EACH(waits) || (guest && GUESTS) -> age(waited_ticks, WAITED_TICKS + 1) :: else -> waited_ticks = 0 fi;
	assert(waited_ticks <= WAITED_TICKS || !EACH(lingers_on))
}
#else
inline was_served() { skip }
inline count_waits() { skip }
#endif

inline check_tick() {
	check_holders();
#if BOUNDS
	count_waits();
	unheard_ticks = 0; n = 0; i = 1;
	do
	:: i <= TICKETS ->
		count_dead(i);
		if :: unknown(i) -> unheard[i]++; unheard_ticks = most(unheard_ticks, unheard[i]) :: else -> unheard[i] = 0 fi;
		i++
	:: else -> break
	od;
	assert(unheard_ticks <= UNHEARD_TICKS);
#if DIED
	if :: dead_holds -> dead_ticks++; dead_holds = false :: else fi;
	assert(dead_ticks <= DEAD_TICKS);
#endif
	count_holders();
	if :: len(queue) > 0 -> queue?<front> :: else fi;
	if :: SUM(could_enter) || (subscribes && GUESTS && n == 0) -> idle_ticks++ :: else -> idle_ticks = 0 fi;
	assert(idle_ticks <= IDLE_TICKS);
	if :: SUM(gone) == CLIENTS && !lease[0] && (n || len(queue) > 0) -> left_ticks++ :: else -> left_ticks = 0 fi;
	assert(left_ticks <= LEFT_TICKS);
	if :: heard && !unknown(heard) -> heard = 0 :: else fi;
	unheeded = heard && !slow && !asked[owner(heard)];
	assert(!unheeded);
	/* Nothing but marks is left of the queue, and the lock is free: an acquire would be refused for nobody's sake. */
	if :: n == 0 && tickets_queued == 0 -> count_marks(); marks_alone = n + len(queue) :: else fi;
	assert(marks_alone == 0);
#endif
#if TRIES
	if :: refused -> refused_ticks++ :: state[0] == HELD -> refused_ticks = 0 :: else fi;
	refused = false;
	assert(refused_ticks <= CLAIM + 1);
#endif
#if HANDOFFS
	i = 0;
	do
	:: i < CLIENTS ->
		if :: state[i] == QUEUED && alive(i) && n -> kept[i]++ :: else -> kept[i] = 0 fi;
		assert(kept[i] <= KEPT_TICKS);
		i++
	:: else -> break
	od;
#endif
	skip
}

byte marks_alone, front;
bool unheeded;
bool slow;                      /* the tick came while something was due */
#define clear_scratch slow = false; unheeded = false; front = 0; marks_alone = 0; valid_holders = 0; unheard_ticks = 0
