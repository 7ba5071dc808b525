"""False alarms of the test of ranks, simulated: how often its e-value reaches a line, times that line, where values come as in the reference. 1 is what is allowed at most.

    python3 bench/serve/rank_test_simulation.py GROUPS REFERENCE_PER_GROUP IMAGES RUNS old|split SEED

`old` fills bins with the values that chose them, `split` with three quarters of the values, the bins being chosen by the others.
"""

import numpy as np, sys
G,N,T,R,mode,seed=int(sys.argv[1]),int(sys.argv[2]),int(sys.argv[3]),int(sys.argv[4]),sys.argv[5],int(sys.argv[6])
rng=np.random.default_rng(seed); B=32
bets=[(1,.1),(1,.3),(1,.9),(1,-.1),(1,-.3),(1,-.9),(2,.6),(2,-.6)]
def kept(t): return 1/np.log(np.e+t)
ref=np.sort(rng.random((R,G,N)),2)
if mode=='split':
    A=N//4; e=np.sort(rng.random((R,G,A)),2); edges=e[:,:,[i*A//B for i in range(1,B)]]; ref=ref[:,:,:0]; body=rng.random((R,G,N-A))
else:
    edges=ref[:,:,[i*N//B for i in range(1,B)]]; body=ref
counts=np.zeros((R,G,B))
for r in range(R):
    for g in range(G):
        counts[r,g]=np.bincount(np.searchsorted(edges[r,g],body[r,g],side='left'),minlength=B)
b=np.zeros((R,len(bets))); mx=np.zeros(R); ar=np.arange(R)
extra=1 if mode=='urn' else 0
for t in range(T):
    g=rng.integers(0,G,R); y=rng.random(R)
    bin_=(edges[ar,g]<y[:,None]).sum(1)
    c=counts[ar,g]; cs=np.cumsum(c,1); s=c[ar,bin_]; below=cs[ar,bin_]-s; n=cs[:,-1]
    if mode=='urn': w=s+(bin_==B-1); u=(below+rng.random(R)*w)/(n+1)
    else: u=(below+rng.random(R)*(s+1))/(n+1)
    counts[ar,g,bin_]+=1
    x=2*u-1
    f=np.stack([1+cc*(x if d==1 else .5*(3*x*x-1)) for d,cc in bets],1)
    b=(b+(kept(t)-kept(t+1))/len(bets))*f
    mx=np.maximum(mx,b.sum(1)+kept(t+1))
print(G,N,T,R,mode,*[f'>={L}: x{L*np.mean(mx>=L):.2f}' for L in (5,10,30,100,300)],'mean end',round(np.mean(b.sum(1)+kept(T)),2),flush=True)
