/* Locks that linger. A tenure that an acquire took stays when its holder unlocks: the client keeps the key and renews it, and
 * its next Lock begins in it without a command. A client that is denied calls the holder's client, which lets go. */

/* The UUID of a tenure says whether it may linger: here its number does. An acquire uses the first number of its client, a ticket another. */
#define may_linger(t) ((t) && ((t) - 1) % IDS == 0 && owner(t) < LINGERERS)
#define kept(c) (state[c] == HELD || state[c] == LINGERING)

#if LINGER
bool call[TICKETS + 1];         /* "w ticket" is on its way */
bool recalled[CLIENTS];         /* its tenure does not linger: others wait for it */
byte lingered[CLIENTS];         /* ticks since the last Unlock */
#define called(c) any(call, c)
#define CALL_OF(t) call[t]
#define FORGET_CALL(t) call[t] = false
#define hears_calls(c) (listens[c] || !HEARS)
#define may_stay(c) (state[c] == HELD && trust[c] > 0 && (may_linger(ticket[c]) || !ACQUIRED_LINGER) && (!recalled[c] || !CALL_KEPT) && hears_calls(c))
#define may_reuse(c) (state[c] == LINGERING && (trust[c] > 0 || !REUSE_TRUSTED))
#define must_let_go(c) (state[c] == LINGERING && !leaving[ticket[c]] && (trust[c] == 0 || (lingered[c] >= LINGER && LINGER_ENDS)))
#define unused(c) (state[c] == LINGERING && lingered[c] >= LINGER)

/* Redis calls the clients of holders that may linger. */
inline call_holders() {
	i = 1;
	do
	:: i <= TICKETS ->
		if
		:: lease[i] && may_linger(i) && listens[owner(i)] && (op == LOOK -> LOOKS_CALL : CALLS) -> call[i] = true; printf("Redis calls client %d: \"w %d\"\n", owner(i), i)
		:: else
		fi;
		i++
	:: else -> break
	od
}
inline call_if_first() {
	first_ticket();
	if :: f == in -> call_holders() :: else fi
}
/* The client releases the tenure that lingers. */
inline let_go() {
	if :: NO_WAY_BACK -> drop_ticket(IDLE) :: else -> leaving[ticket[c]] = true fi
}
/* Others wait for the lock that the client has. */
inline recall() {
	recalled[c] = true;
	if
	:: state[c] == LINGERING && RELEASE_AT_CALL -> let_go()
	:: state[c] == HELD && !USE_STAYS -> leaving[ticket[c]] = true
	:: else
	fi
}
inline forget_linger(c) { recalled[c] = false; lingered[c] = 0 }
#else
#define called(c) false
#define CALL_OF(t) false
#define FORGET_CALL(t) skip
#define must_let_go(c) false
#define unused(c) false
inline call_holders() { skip }
inline call_if_first() { skip }
inline recall() { skip }
inline forget_linger(c) { skip }
#endif
