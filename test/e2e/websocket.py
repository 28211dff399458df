# A peer by Python's websockets. Usage: python3 websocket.py client URL | python3 websocket.py serve
import asyncio, sys, websockets

async def client(url, compression):
    async with websockets.connect(url, compression=compression, max_size=8 << 20) as ws:
        for size in (0, 1, 125, 126, 65535, 65536, 1000000):
            for data in (b'b' * size, 't' * size):
                await ws.send(data)
                assert await ws.recv() == data, size
        await ws.send(['in ', 'three ', 'parts'])
        assert await ws.recv() == 'in three parts'
        await (await ws.ping(b'here?'))
    assert ws.close_code == 1000, ws.close_code

async def echo(ws):
    async for message in ws:
        await ws.send(message)

async def main():
    if sys.argv[1] == 'serve':
        async with websockets.serve(echo, '127.0.0.1', 0, max_size=8 << 20) as server:
            print('127.0.0.1:%d' % server.sockets[0].getsockname()[1], flush=True)
            await asyncio.Future()
    for compression in (None, 'deflate'):
        await client(sys.argv[2], compression)
    print('ok')

asyncio.run(main())
