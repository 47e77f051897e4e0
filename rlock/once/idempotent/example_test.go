package idempotent_test

import (
	"log"
	"net/http"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/once/idempotent"
)

func Example() {
	locks, err := rlock.New(rlock.Config{Redis: rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}}})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = locks.Close() }()
	guard := idempotent.New(locks, idempotent.Options{
		Who:  func(r *http.Request) string { account, _, _ := r.BasicAuth(); return account },
		Wait: 5 * time.Second,
	})
	defer guard.Close()

	payments := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// INSERT INTO payments (idempotency_key, ...) VALUES (idempotent.Key(r.Context()), ...)
		w.WriteHeader(http.StatusCreated)
	})
	mux := http.NewServeMux()
	mux.Handle("POST /payments", guard.Handler(payments))
	log.Print(http.ListenAndServe("127.0.0.1:8080", mux))
}
