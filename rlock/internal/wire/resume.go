package wire

// A Resumption says who takes a lock that was passed on: see scripts/resume.lua.
type Resumption struct {
	Lease    string // in milliseconds
	From, To string // the fields of the owner that the lock was passed on with, and of the one that resumes
	// FromLease and ToLease are the keys of the two readers' leases; "" for a lock that is not read.
	FromLease, ToLease string
	Polls              bool // there may be foreign clients that only poll
}

// Resume returns the call for a lock that is a hash of owners.
func (r *Redis) Resume(k *Keys, s Resumption) Call {
	n := k.names()
	c := Call{Script: Resume}
	all := append(c.words.all[:0], k.Key, n[queueName], n[foreignName], n[channelName])
	mode := "x"
	if s.ToLease != "" {
		all, mode = append(all, s.FromLease, s.ToLease), "s"
	} else if c.fair = r.fairRights(n[fairQueueName]); c.fair != nil { // at fairKeysAt
		all = append(all, n[fairQueueName], n[fairTimesName])
	}
	c.words.keys = len(all)
	all = append(all, r.how(s.Polls), s.Lease, s.From, s.To, mode)
	c.words.n = len(all)
	return c
}

// how says how a script is to count: with or without foreign clients that only poll.
func (r *Redis) how(polls bool) string {
	if polls {
		return r.family + "+"
	}
	return r.family
}
