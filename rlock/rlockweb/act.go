package rlockweb

import (
	"net/http"
	"slices"

	"github.com/go-rlock/rlock/rlock/inspect"
)

// unlock shows who loses the lock, and takes it away from those that were shown if that is
// confirmed by POST.
func (p *page) unlock(w http.ResponseWriter, r *http.Request) {
	if !p.Unlock {
		p.fail(w, http.StatusForbidden, "This page only shows locks.")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
	if err := r.ParseForm(); err != nil {
		p.fail(w, http.StatusBadRequest, "The request cannot be read.")
		return
	}
	q := queryOf(r)
	if !p.resolve(w, q) {
		return
	}
	lock, err := p.inspector.Lock(r.Context(), q.Lock)
	if err != nil {
		p.fail(w, http.StatusBadGateway, err.Error())
		return
	}
	if owners := r.Form["o"]; len(owners) > 0 {
		lock.Holders = slices.DeleteFunc(lock.Holders, func(h inspect.Holder) bool { return !slices.Contains(owners, h.Owner) })
	}
	if len(lock.Holders) == 0 {
		p.fail(w, http.StatusConflict, "The lock is free, or these holders do not have it any more.")
		return
	}
	if r.Method != http.MethodPost {
		p.show(w, http.StatusOK, "unlock", &record{Lock: lock})
		return
	}
	if len(r.PostForm["o"]) == 0 {
		p.fail(w, http.StatusBadRequest, "The request names no holder.")
		return
	}
	p.force(w, r, lock)
}

// force takes the lock away from its holders.
func (p *page) force(w http.ResponseWriter, r *http.Request, lock inspect.Lock) {
	who := p.Who(r)
	p.watcher.forced(lock, who)
	released, err := p.inspector.ForceUnlock(r.Context(), lock)
	var owners []string
	for _, h := range lock.Holders {
		owners = append(owners, h.Owner)
	}
	p.Logger.WarnContext(r.Context(), "rlockweb: a lock is taken away by force", "lock", printable(lock.Name), "owners", owners, "who", who, "released", released, "error", err)
	switch {
	case err != nil:
		p.fail(w, http.StatusBadGateway, err.Error())
	case !released:
		p.fail(w, http.StatusConflict, "The holders that were shown do not have the lock any more. It was left alone.")
	default:
		w.Header().Set("Location", "lock?l="+idOf(lock.Name))
		w.WriteHeader(http.StatusSeeOther)
	}
}
