package worker

import "time"

// In takeTurns each process waits for the lock only after another one has got it, so that
// every section is handed over from one process to another that waits, and none overtakes.
// Section must be long enough to begin to wait in.
func (r *runner) takeTurns() {
	const lock = 0
	m := r.client.Mutex(r.name(lock))
	for {
		for r.ground.Last(lock) == r.Process || r.ground.Last(lock) < 0 && r.Process > 0 {
			if time.Now().After(r.end) {
				return
			}
			time.Sleep(100 * time.Microsecond)
		}
		if !r.section(m, lock, false) {
			return
		}
	}
}
