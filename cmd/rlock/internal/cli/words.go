package cli

import "strings"

// forShells replaces the fields of Config in texts of the library by the flags of this command.
var forShells = strings.NewReplacer(
	"the Redis user lacks a permission: the server wants a password, and Config.Redis has none",
	"login failed: the server wants a password (--password-file)",
	"the Redis user lacks a permission: the Sentinel wants a password, and Config.Redis.Sentinel has none",
	"login failed: the Sentinel wants a password (--sentinel-password)",
	"the Redis user lacks a permission: Config.Redis.Sentinel has a wrong user name or password",
	"login failed: the user name or the password for the Sentinel is wrong (--sentinel-user, --sentinel-password)",
	"the Redis user lacks a permission: Config.Redis has a wrong user name or password",
	"login failed: the user name or the password is wrong (--user, --password-file)",
	"invalid config: the server is a Sentinel", "the server is a Sentinel",
	"name the primary in Config.Redis.Sentinel.MasterSet", "name the primary with --sentinel",
	"with Config.Redis.Sentinel.MasterSet the addresses", "with --sentinel the addresses",
	"the name in Config.Redis.Sentinel.MasterSet", "the name in --sentinel",
	" (else set Config.Redis.TLSConfig)", " (else use --tls)",
	", and Config.Redis", ", and --addr",
	" with Config.Redis.SelectDB", " (--db)",
	" within Config.Redis.Dialer.Timeout", " in time",
	", or set Config.Advanced.PubSub", "",
	"Redis.InitAddress: ", "--addr: ", "Redis.InitAddress", "--addr", "rueidis.ParseURL for a URL", "--url",
	"You can't write against a read only replica.", "the server is a replica: use the address of the primary, or --sentinel;",
)
