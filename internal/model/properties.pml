/* What is checked. The names of the variables are what a failed run reports. */
#ifndef IDLE_TICKS
#define IDLE_TICKS 2
#endif
#ifndef LEFT_TICKS
#define LEFT_TICKS 4
#endif

/* Never two valid holders: holders that believe, by the trust rule, that they hold. */
#define believes(c) (state[c] == HELD && trust[c] > 0)
byte valid_holders;
inline check_holders() {
	valid_holders = SUM(believes);
	assert(valid_holders <= 1)
}

/* No ticket is granted twice. */
bool granted[TICKETS + 1];
inline was_granted(t) { assert(!granted[t]); granted[t] = true }
inline forget_ticket(t) { granted[t] = false; unheard[t] = 0; was_kept(t); if :: heard == t -> heard = 0 :: else fi }

/* No grant is lost for longer than a claim: ticks for which a ticket holds and its living client does not know. */
byte unheard[TICKETS + 1];
byte unheard_ticks;
#define unknown(t) (lease[t] && alive(owner(t)) && !(state[owner(t)] == HELD && ticket[owner(t)] == t))

/* Nobody waits for ever beside a free lock: ticks for which the lock is free and a living client waits. */
byte idle_ticks;
#define waits(c) (alive(c) && (state[c] == WANTING || state[c] == JOINING || state[c] == QUEUED))

/* When all have gone, nothing is left. */
byte left_ticks;
#define gone(c) (state[c] == IDLE || state[c] == DEAD)

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
bool granted_dead[TICKETS + 1];
inline was_told(t) { granted_dead[t] = state[owner(t)] == DEAD }
inline was_kept(t) { granted_dead[t] = false }
inline count_dead(t) {
	if
	:: lease[t] && granted_dead[t] -> dead_ticks++; assert(dead_ticks < CLAIM && (listens[owner(t)] || dead_ticks == 0))
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

inline check_tick() {
	check_holders();
#if BOUNDS
	unheard_ticks = 0; n = 0; i = 1;
	do
	:: i <= TICKETS ->
		if :: lease[i] -> n++ :: else fi;
		count_dead(i);
		if :: unknown(i) -> unheard[i]++; unheard_ticks = most(unheard_ticks, unheard[i]) :: else -> unheard[i] = 0 fi;
		i++
	:: else -> break
	od;
	assert(unheard_ticks < CLAIM);
	if :: n == 0 && SUM(waits) -> idle_ticks++ :: else -> idle_ticks = 0 fi;
	assert(idle_ticks <= IDLE_TICKS);
	if :: SUM(gone) == CLIENTS && (n || len(queue) > 0) -> left_ticks++ :: else -> left_ticks = 0 fi;
	assert(left_ticks <= LEFT_TICKS);
	if :: heard && !unknown(heard) -> heard = 0 :: else fi;
	unheeded = heard && !slow && !asked[owner(heard)];
	assert(!unheeded);
	/* Nothing but marks is left of the queue, and the lock is free: an acquire would be refused for nobody's sake. */
	if :: n == 0 && len(queue) == 0 -> count_marks(); marks_alone = n :: else fi;
	assert(marks_alone == 0)
#endif
}

byte marks_alone;
bool unheeded;
bool slow;                      /* the tick came while something was due */
#define clear_scratch slow = false; unheeded = false; marks_alone = 0; valid_holders = 0; unheard_ticks = 0
