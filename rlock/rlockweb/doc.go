// Package rlockweb is a page for operators: the locks of a service in a browser, with their holders,
// their queues, and what happens to them while one looks. It is a module of its own, without a
// framework; nothing is loaded from another host.
//
//	page := rlockweb.Handler(client, rlockweb.Options{})
//	mux.Handle("/locks/", login(page))
//
// The page has no login of its own: put it behind that of the service. The pattern must end with a
// slash. All its links are relative, so any prefix works, with http.StripPrefix or without, and
// behind a proxy that strips or adds one. The command "rlock web" serves the same page.
//
// All viewers share one watcher. It sends at most three commands a second, whatever their number,
// and none while nobody looks; a Cluster gets one more for each lock that it looks at. What a lock
// goes through in less than a second may be missed. The user of the client needs the rights of
// "Inspect and Locks" in docs/operations.md.
package rlockweb
