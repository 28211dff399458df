// A page over HTTP/1.1 by net/http. Usage: http PORT
package main

import (
	"net/http"
	"os"
	"runtime"
)

func main() {
	runtime.GOMAXPROCS(1)
	http.HandleFunc("/hello", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Write([]byte("Hello, World!"))
	})
	panic(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
