module github.com/go-rlock/rlock/examples/gocron

go 1.26.0

replace (
	github.com/go-rlock/rlock => ../..
	github.com/go-rlock/rlock/rlock/gocron => ../../rlock/gocron
)

require (
	github.com/go-co-op/gocron/v2 v2.21.2
	github.com/go-rlock/rlock v0.1.0
	github.com/go-rlock/rlock/rlock/gocron v0.1.0
	github.com/redis/rueidis v1.0.79
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/jonboulle/clockwork v0.5.0 // indirect
	github.com/petermattis/goid v0.0.0-20260820044319-269ab09b5261 // indirect
	github.com/robfig/cron/v3 v3.0.1 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	golang.org/x/sys v0.47.0 // indirect
)
