package driver

import (
	"github.com/go-rlock/rlock/pubsub"
)

// listen implements carrier.
func (r *redis) listen(n *Name, hear func(string), confirmed func()) subscription {
	return &listening{r, n, r.hub.ListenConfirmed(n.GrantChannel(), hear, confirmed), nil}
}

// A listening is the subscription of a lock.
type listening struct {
	redis  *redis
	name   *Name
	grants *pubsub.Subscription
	others []*pubsub.Subscription // to what foreign clients are told
}

func (s *listening) state() (confirmed, refused bool) {
	return s.grants.Confirmed(), s.grants.Refused() != nil
}

// abroad subscribes to a second channel, too, which counts those that do: Redis can tell how many foreign
// clients listen.
func (s *listening) abroad(hear func(string)) {
	if len(s.others) > 0 {
		return
	}
	if s.redis.Counts() {
		s.others = append(s.others, s.grants.Also(s.name.Ushers(), hear))
	}
	if s.name.FairQueue() != "" {
		s.others = append(s.others, s.grants.Also(s.name.Channel()+":"+fairPlace, hear))
	}
	s.others = append(s.others, s.grants.Also(s.name.Channel(), hear))
}

// fairPlace is the owner of our place in Redisson's fair queue. It is a part of the protocol: foreign.lua says
// the same.
const fairPlace = "rlock:0"

func (s *listening) home() {
	for _, other := range s.others {
		other.Close()
	}
	s.others = nil
}

func (s *listening) abroadHeard() bool {
	return len(s.others) > 0 && s.others[len(s.others)-1].Confirmed()
}

func (s *listening) close() {
	s.home()
	s.grants.Close()
}
